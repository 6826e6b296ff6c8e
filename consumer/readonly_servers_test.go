//go:build servers && linux

package consumer_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// remounted is a folder that is seen through a file system of its own, which is
// read-only while a file is there, as one whose volume the system has remounted
// after a fault: files that are open for writing stay open, and each write to
// them is EROFS. No ordinary remount does that: it is refused while files are
// open for writing.
type remounted struct {
	*fs.LoopbackNode
	readOnly string
}

func (n *remounted) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &remounted{child.(*fs.LoopbackNode), n.readOnly}
}

func (n *remounted) refuses() syscall.Errno {
	if _, err := os.Stat(n.readOnly); err == nil {
		return syscall.EROFS
	}
	return 0
}

func (n *remounted) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if no := n.refuses(); no != 0 && flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return nil, 0, no
	}
	f, flags, no := n.LoopbackNode.Open(ctx, flags)
	return through(f), flags, no
}

func (n *remounted) Write(ctx context.Context, f fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	if no := n.refuses(); no != 0 {
		return 0, no
	}
	return f.(fs.FileWriter).Write(ctx, data, at)
}

func (n *remounted) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if no := n.refuses(); no != 0 {
		return no
	}
	return n.LoopbackNode.Setattr(ctx, f, in, out)
}

func (n *remounted) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	if no := n.refuses(); no != 0 {
		return nil, nil, 0, no
	}
	inode, f, flags, no := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, through(f), flags, no
}

// ownFile is one that the kernel may not write to by itself, past the file
// system, as it does for root when it is offered the file below.
type ownFile struct{ *fs.LoopbackFile }

func (ownFile) PassthroughFd() (int, bool) { return 0, false }

func through(f fs.FileHandle) fs.FileHandle {
	if f, ok := f.(*fs.LoopbackFile); ok {
		return ownFile{f}
	}
	return f
}

func TestOnAReadOnlyDiskNothingStartsNothingIsAckedAndNothingRunsTwice(t *testing.T) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Fatalf("this test needs FUSE: load the kernel module, or run the container with --device /dev/fuse --cap-add SYS_ADMIN: %v", err)
	}
	under, dir, readOnly := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "read-only")
	root, err := fs.NewLoopbackRoot(under)
	if err != nil {
		t.Fatal(err)
	}
	server, err := fs.Mount(dir, &remounted{root.(*fs.LoopbackNode), readOnly}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: os.Getuid() == 0, FsName: "remounted", Name: "remounted"},
	})
	if err != nil {
		t.Fatalf("this test needs FUSE and the right to mount it: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	p := start(t, "disk", diskConfig{File: filepath.Join(dir, "billing.db"), Switch: readOnly})
	p.wait(func(words []string) { t.Errorf("the process says %q", words) })
	if p.err != nil {
		t.Error(p.err)
	}
}
