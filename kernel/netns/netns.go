// SPDX-License-Identifier: Apache-2.0

// Package netns creates, enters and removes network namespaces.
//
// Namespaces are pinned under /run/netns, as by ip-netns(8), so that other tools can enter them.
// [Namespace.Do] runs a function with the calling goroutine's thread inside the namespace. Sockets
// and netlink handles opened by the function stay in the namespace; goroutines started by it do not
// enter it.
package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is the folder of pinned namespaces.
const Dir = "/run/netns"

// Namespace is a handle to a pinned network namespace. It is safe for concurrent use until Close.
type Namespace struct {
	Name string
	file *os.File
}

// Path returns the path of the namespace with a name.
func Path(name string) string { return filepath.Join(Dir, name) }

// Path returns the path of the namespace.
func (n *Namespace) Path() string {
	if filepath.IsAbs(n.Name) {
		return n.Name
	}
	return Path(n.Name)
}

// Create creates a network namespace, pins it under name and brings its loopback device up. An
// existing name is an error.
func Create(name string) (*Namespace, error) {
	if name == "" || strings.ContainsAny(name, "/ ") {
		return nil, fmt.Errorf("create namespace: %q is not a name", name)
	}
	if err := makeFolder(); err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	path := Path(name)
	pin, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444)
	if err != nil {
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	_ = pin.Close()
	if err := pinNew(path); err != nil {
		_ = os.Remove(path)
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	ns, err := Open(name)
	if err != nil {
		return nil, err
	}
	if err := ns.Do(loopbackUp); err != nil {
		_ = ns.Close()
		_ = Remove(name)
		return nil, fmt.Errorf("create namespace %s: %w", name, err)
	}
	return ns, nil
}

// pinNew binds a new namespace to path. It uses a separate thread, which ends afterwards because it
// has left its namespace.
func pinNew(path string) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			source := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
			if err := unix.Mount(source, path, "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("pin: %w", err)
			}
			return nil
		}()
	}()
	return <-done
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	return nil
}

// Open returns a handle to the namespace pinned under name.
func Open(name string) (*Namespace, error) {
	file, err := os.Open(Path(name))
	if err != nil {
		return nil, fmt.Errorf("open namespace %s: %w", name, err)
	}
	return &Namespace{Name: name, file: file}, nil
}

// OpenPath returns a handle to the namespace at path, such as /proc/1/ns/net; its Name is the path.
// It does not block on a FIFO, because path may come from a user.
func OpenPath(path string) (*Namespace, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err == nil {
		err = isNamespace(file)
	}
	if err != nil {
		_ = file.Close() // nil if already closed
		return nil, fmt.Errorf("open namespace %s: %w", path, err)
	}
	return &Namespace{Name: path, file: file}, nil
}

// ErrNotNamespace is returned for a path to another kind of file, such as the empty file that a
// crash leaves in Dir.
var ErrNotNamespace = errors.New("it is no namespace")

func isNamespace(file *os.File) error {
	var found unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &found); err != nil {
		return err
	}
	if found.Type != unix.NSFS_MAGIC {
		return ErrNotNamespace
	}
	return nil
}

// Current returns a handle to the calling thread's own namespace; its Name is "".
func Current() (*Namespace, error) {
	file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		return nil, fmt.Errorf("open current namespace: %w", err)
	}
	return &Namespace{file: file}, nil
}

// List returns the names of the pinned namespaces that start with prefix.
func List(prefix string) ([]string, error) {
	entries, err := os.ReadDir(Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Remove unpins the namespace. Its devices disappear with its last process and handle. A missing
// name is no error.
func Remove(name string) error {
	path := Path(name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("remove namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove namespace %s: %w", name, err)
	}
	return nil
}

// FD returns the handle's descriptor, valid until Close.
func (n *Namespace) FD() int { return int(n.file.Fd()) }

// Close releases the handle; the namespace stays pinned.
func (n *Namespace) Close() error { return n.file.Close() }

// Inode identifies the namespace on this machine.
func (n *Namespace) Inode() (uint64, error) {
	var status unix.Stat_t
	if err := unix.Fstat(n.FD(), &status); err != nil {
		return 0, fmt.Errorf("stat namespace %s: %w", n.Name, err)
	}
	return status.Ino, nil
}

// Enter moves the calling thread into the namespace permanently. Lock the goroutine to the thread
// and do not unlock it, so that the thread ends with the goroutine.
func (n *Namespace) Enter() error {
	if err := unix.Setns(n.FD(), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", n.Name, err)
	}
	return nil
}

// Do runs f with the calling thread inside the namespace and returns the error of f. The goroutine
// is locked to the thread meanwhile. A nil namespace is the thread's current one.
func (n *Namespace) Do(f func() error) error {
	if n == nil {
		return f()
	}
	runtime.LockOSThread()
	before, err := Current()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = before.Close() }()
	if err := unix.Setns(n.FD(), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter namespace %s: %w", n.Name, err)
	}
	defer func() {
		// A thread that cannot go back must not serve other goroutines: left locked, it ends with
		// its goroutine.
		if unix.Setns(before.FD(), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return f()
}
