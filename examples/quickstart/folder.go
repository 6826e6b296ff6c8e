package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// folder is where everything of a run lies. A temporary one has a sweeper: a
// process that outlives this one and removes the folder when this one is dead,
// even by kill -9.
type folder struct {
	path    string
	sweeper *process // nil when the folder is kept
}

// openFolder makes the folder: the one to keep, or a temporary one.
func openFolder(keep string) (*folder, error) {
	if keep != "" {
		return keptFolder(keep)
	}
	path, err := os.MkdirTemp("", "onceward-quickstart-")
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	if f.sweeper, err = startProcess(sweeperVariable, path, nil); err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

func keptFolder(keep string) (*folder, error) {
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return nil, err
	}
	inside, err := os.ReadDir(keep)
	if err != nil {
		return nil, err
	}
	if len(inside) > 0 {
		return nil, fmt.Errorf("--keep %s: the folder is not empty", keep)
	}
	path, err := filepath.Abs(keep)
	return &folder{path: path}, err
}

// in is the path of a file in the folder.
func (f *folder) in(name string) string { return filepath.Join(f.path, name) }

// remove removes a temporary folder, of which nothing is open any more.
func (f *folder) remove() error {
	if f.sweeper == nil {
		return nil
	}
	err := os.RemoveAll(f.path)
	_ = f.sweeper.stdin.Close() // it finds nothing to remove, and ends
	<-f.sweeper.ended
	return err
}

// sweep is the sweeper process. Others that die with the parent may still have
// files open, which Windows does not remove, or write new ones.
func sweep(path string) int {
	_ = toldToStop(os.Stdin)
	for range 100 {
		if os.RemoveAll(path) == nil {
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				return 0
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	return 1
}
