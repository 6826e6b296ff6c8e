package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serveNATS runs nats-server with file storage in dir and prints its address,
// until its standard input ends with the driver.
func serveNATS(dir string) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return errors.New("nats-server is not ready")
	}
	fmt.Println(s.ClientURL())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		s.Shutdown()
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		s.Shutdown()
	}()
	s.WaitForShutdown()
	return nil
}

// startNATS starts it as a child.
func startNATS(dir string) (url string, pid int, stop func(), err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", 0, nil, err
	}
	cmd := exec.Command(exe, "serve-nats", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", 0, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", 0, nil, err
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = endsWithUs
	if err := cmd.Start(); err != nil {
		return "", 0, nil, err
	}
	stop = func() {
		in.Close()
		_ = cmd.Wait()
	}
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", 0, nil, fmt.Errorf("nats-server did not start: %w", err)
	}
	return strings.TrimSpace(url), cmd.Process.Pid, stop, nil
}
