package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is this program once more, in another role: the consumer that is
// killed, or the sweeper. The end of its standard input tells it that the
// parent is dead, however that happened.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{} // closed when it is dead; then err is set
	err   error
}

// Variables that tell a process its role, and what it needs.
const (
	consumerVariable = "ONCEWARD_QUICKSTART_CONSUMER" // a consumerConfig in JSON
	sweeperVariable  = "ONCEWARD_QUICKSTART_SWEEPER"  // the folder to remove
)

const stopWord = "stop\n"

// startProcess starts a process, whose output goes to log.
func startProcess(variable, value string, log *os.File) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{ended: make(chan struct{})}
	p.cmd = exec.Command(program) //nolint:noctx // kill and stop end it, each in its own way
	p.cmd.Env = append(os.Environ(), variable+"="+value)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// kill ends the process as kill -9 does and waits until it is dead.
//
// Errors: when it had ended before by itself.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.ended
	return err
}

// stop tells the process to stop in order and waits for it.
//
// Errors: when it ended otherwise than with exit status 0, or not in time.
func (p *process) stop() error {
	if _, err := io.WriteString(p.stdin, stopWord); err != nil {
		return errors.Join(errors.New("consumer process cannot be told to stop"), err, p.kill())
	}
	late := time.NewTimer(time.Minute) // twice what the consumer takes for a drain
	defer late.Stop()
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("consumer process: %w", p.err)
		}
		return nil
	case <-late.C:
		return errors.Join(errors.New("consumer process does not stop within a minute"), p.kill())
	}
}

// toldToStop waits for the parent's word, and is false when the parent has
// died without it.
func toldToStop(in io.Reader) bool {
	line, _ := bufio.NewReader(in).ReadString('\n')
	return line == stopWord
}
