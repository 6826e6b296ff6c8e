//go:build servers && linux

package boltstore

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// disk is a file system in memory that knows what has been synced. Cut leaves
// of the rest what a loss of power may leave. Whoever uses it must be another
// process than the one that serves it: a page that is read through a map while
// the server waits for that very thread would stop both.
type disk struct {
	fs.Inode
	mu    sync.Mutex
	files map[string]*diskFile
	// syncs to let pass before one fails, and what a failed one does with the
	// writes; see failSync.
	failIn int
	forget bool
}

type diskFile struct {
	fs.Inode
	d         *disk
	now, safe []byte
	writes    []diskWrite // since the last sync
}

type diskWrite struct {
	at   int64
	data []byte
	size int64 // truncated to; -1: it is a write
}

func mountDisk(t *testing.T) (*disk, string) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Fatalf("this test needs FUSE: load the kernel module, or run the container with --device /dev/fuse --cap-add SYS_ADMIN: %v", err)
	}
	dir := t.TempDir()
	d := &disk{files: make(map[string]*diskFile)}
	server, err := fs.Mount(dir, d, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: os.Getuid() == 0, FsName: "disk", Name: "disk"}})
	if err != nil {
		t.Fatalf("this test needs FUSE and the right to mount it: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return d, dir
}

// cut is a loss of power: of what was not synced, each sector of each write is
// there or not. It returns the file as the disk has it.
func (d *disk) cut(name string, r *rand.Rand, tear bool) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.files[name]
	if f == nil {
		return nil
	}
	const sector = 512
	left := append([]byte(nil), f.safe...)
	for _, w := range f.writes {
		switch {
		case !tear:
		case w.size >= 0:
			if r.IntN(2) == 0 {
				left = w.apply(left)
			}
		default:
			for from := 0; from < len(w.data); {
				to := min(len(w.data), from+sector-int((w.at+int64(from))%sector))
				if r.IntN(2) == 0 {
					left = diskWrite{at: w.at + int64(from), data: w.data[from:to], size: -1}.apply(left)
				}
				from = to
			}
		}
	}
	f.now, f.safe, f.writes = append([]byte(nil), left...), append([]byte(nil), left...), nil
	return left
}

// failSync has the sync after the next n fail. With forget, what was written
// since the last good one is gone, as on a disk whose cache was lost.
func (d *disk) failSync(n int, forget bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failIn, d.forget = n+1, forget
}

func (w diskWrite) apply(b []byte) []byte {
	if w.size >= 0 {
		if int64(len(b)) > w.size {
			return b[:w.size:w.size]
		}
		return append(b, make([]byte, w.size-int64(len(b)))...)
	}
	if end := w.at + int64(len(w.data)); int64(len(b)) < end {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	copy(b[w.at:], w.data)
	return b
}

func (f *diskFile) write(w diskWrite) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.now = w.apply(f.now)
	f.writes = append(f.writes, w)
}

func (d *disk) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f := &diskFile{d: d}
	d.mu.Lock()
	d.files[name] = f
	d.mu.Unlock()
	out.Mode = syscall.S_IFREG | 0o600
	return d.NewPersistentInode(ctx, f, fs.StableAttr{Mode: syscall.S_IFREG | 0o600}), nil, 0, 0
}

func (d *disk) Unlink(_ context.Context, name string) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, name)
	return 0
}

func (d *disk) Rename(_ context.Context, name string, _ fs.InodeEmbedder, to string, _ uint32) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[to] = d.files[name]
	delete(d.files, name)
	return 0
}

func (d *disk) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno { return 0 }

func (d *disk) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Frsize, out.Blocks, out.Bfree, out.Bavail, out.NameLen = 4096, 4096, 1<<22, 1<<22, 1<<22, 255
	return 0
}

// Open keeps no page of before in the kernel's cache.
func (f *diskFile) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&syscall.O_TRUNC != 0 {
		f.write(diskWrite{size: 0})
	}
	return nil, 0, 0
}

func (f *diskFile) Read(_ context.Context, _ fs.FileHandle, to []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if at >= int64(len(f.now)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(to[:copy(to, f.now[at:])]), 0
}

func (f *diskFile) Write(_ context.Context, _ fs.FileHandle, b []byte, at int64) (uint32, syscall.Errno) {
	f.write(diskWrite{at: at, data: append([]byte(nil), b...), size: -1})
	return uint32(len(b)), 0
}

func (f *diskFile) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		f.write(diskWrite{size: int64(size)})
	}
	return f.Getattr(ctx, h, out)
}

func (f *diskFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	out.Size, out.Mode = uint64(len(f.now)), 0o600
	return 0
}

func (f *diskFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.failIn > 0 {
		if f.d.failIn--; f.d.failIn == 0 {
			if f.d.forget {
				f.now, f.writes = append([]byte(nil), f.safe...), nil
			}
			return syscall.EIO
		}
	}
	for _, w := range f.writes {
		f.safe = w.apply(f.safe)
	}
	f.writes = nil
	return 0
}

var (
	_ fs.NodeCreater   = (*disk)(nil)
	_ fs.NodeUnlinker  = (*disk)(nil)
	_ fs.NodeRenamer   = (*disk)(nil)
	_ fs.NodeFsyncer   = (*disk)(nil)
	_ fs.NodeStatfser  = (*disk)(nil)
	_ fs.NodeOpener    = (*diskFile)(nil)
	_ fs.NodeReader    = (*diskFile)(nil)
	_ fs.NodeWriter    = (*diskFile)(nil)
	_ fs.NodeSetattrer = (*diskFile)(nil)
	_ fs.NodeGetattrer = (*diskFile)(nil)
	_ fs.NodeFsyncer   = (*diskFile)(nil)
)
