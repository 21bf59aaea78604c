// SPDX-License-Identifier: Apache-2.0

// Package instance registers the labs that exist on this machine, so that none outlives its owner
// unnoticed.
//
// An instance is one built lab. Its directory under [Root] holds instance.json, and every namespace
// of the lab is named after its id. These rules make kill -9 harmless:
//
//   - The directory exists before the first namespace or cgroup, so all objects can be found from
//     it.
//   - The owner holds a lock (flock) on a file in it for its lifetime; the kernel releases the lock
//     with the process. A user that may read a file may lock it, so only root may read it.
//   - An instance with a free lock is stale, and [Sweep] removes it. Every weir lab command sweeps
//     first.
//
// The owner of a lab started by `weir lab up --detach` is a separate process, so the same rules
// hold for it.
package instance

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"weir/internal/atomicfile"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/storage"
)

// Purpose is the purpose of an instance.
type Purpose string

const (
	Run Purpose = "run" // a measurement; ends by itself
	Up  Purpose = "up"  // kept for people; ends with weir lab down
)

// Info is the content of instance.json. It is written before any other object of the lab exists.
type Info struct {
	ID       string    `json:"id"`
	Scenario string    `json:"scenario"`
	Purpose  Purpose   `json:"purpose"`
	PID      int       `json:"pid"`
	Birth    uint64    `json:"process_start_ticks"` // start time of PID since boot: distinguishes a reused process id
	Started  time.Time `json:"started"`
	// Nodes maps a node's name to that of its namespace. It is empty until the first topology is
	// built.
	Nodes map[string]string `json:"nodes"`
	// Dir is the instance's directory; it is not stored.
	Dir string `json:"-"`
}

// Instance is a lab owned by this process. Methods are not safe for concurrent use.
type Instance struct {
	Info
	lock *os.File
}

// Root is the directory of all instances: lab below WEIR_RUN_DIR, or below /run/weir.
func Root() string {
	if dir := os.Getenv("WEIR_RUN_DIR"); dir != "" {
		return filepath.Join(dir, "lab")
	}
	return "/run/weir/lab"
}

// CheckRoot returns why this process cannot create labs, or nil.
func CheckRoot() error {
	if os.Geteuid() == 0 {
		return nil
	}
	return fault.New(fault.Permission, "run it as root, as in: sudo weir lab run loss-quick",
		"create a lab: namespaces, links and BPF programs need root (CAP_SYS_ADMIN, CAP_NET_ADMIN and CAP_BPF)")
}

// New registers a lab owned by this process. It creates nothing but the directory.
func New(scenario string, purpose Purpose) (*Instance, error) {
	if err := CheckRoot(); err != nil {
		return nil, err
	}
	book, err := openBook()
	if err != nil {
		return nil, err
	}
	defer func() { _ = book.Close() }()
	birth, err := processBirth(os.Getpid())
	if err != nil {
		return nil, err
	}
	info := Info{Scenario: scenario, Purpose: purpose, PID: os.Getpid(), Birth: birth, Started: time.Now(), Nodes: map[string]string{}}
	if info.ID, info.Dir, err = newDirectory(); err != nil {
		return nil, err
	}
	lock, err := info.openLock(os.O_CREATE | os.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("create lab %s: %w", info.ID, err)
	}
	instance := &Instance{Info: info, lock: lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock lab %s: %w", info.ID, err), lock.Close())
	}
	if err := instance.write(); err != nil {
		return nil, errors.Join(err, instance.Close())
	}
	return instance, nil
}

// newDirectory creates the directory of a new id.
func newDirectory() (id, dir string, err error) {
	for range 16 {
		var random [3]byte
		_, _ = rand.Read(random[:])
		id = hex.EncodeToString(random[:])
		dir = filepath.Join(Root(), id)
		err = os.Mkdir(dir, 0o755)
		if !errors.Is(err, os.ErrExist) {
			break
		}
	}
	if err != nil {
		return "", "", storage.Fault(fmt.Errorf("create lab directory: %w", err))
	}
	return id, dir, nil
}

// openBook takes the lock for registering instances and for deciding that one is stale. Closing the
// file releases it.
func openBook() (*os.File, error) {
	if err := os.MkdirAll(Root(), 0o755); err != nil {
		return nil, storage.Fault(fmt.Errorf("create run directory: %w", err))
	}
	book, err := os.OpenFile(filepath.Join(Root(), ".book"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, storage.Fault(fmt.Errorf("open list of labs: %w", err))
	}
	if err := unix.Flock(int(book.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock list of labs: %w", err), book.Close())
	}
	return book, nil
}

// prefix returns the common prefix of the instance's namespaces.
func (i Info) prefix() string { return "weir-" + i.ID + "-" }

// Namespace returns the name of a node's namespace.
func (i Info) Namespace(node string) string { return i.prefix() + node }

// Announce stores the names of the nodes before they are created.
func (i *Instance) Announce(nodes []string) error {
	i.Nodes = make(map[string]string, len(nodes))
	for _, node := range nodes {
		i.Nodes[node] = i.Namespace(node)
	}
	return i.write()
}

// write replaces instance.json in one step.
func (i *Instance) write() error {
	text, err := json.MarshalIndent(i.Info, "", "  ")
	if err != nil {
		return fmt.Errorf("write lab %s: %w", i.ID, err)
	}
	path := filepath.Join(i.Dir, "instance.json")
	if err := atomicfile.WriteBytes(path, 0o644, append(text, '\n')); err != nil {
		return storage.Fault(fmt.Errorf("write lab %s: %w", i.ID, err))
	}
	return nil
}

// Clear removes the lab's namespaces, cgroups and processes; the instance stays registered.
func (i *Instance) Clear() error { return i.clear() }

// Close removes the lab: namespaces, cgroups, processes, and its directory.
func (i *Instance) Close() error {
	err := i.clear()
	if err == nil {
		err = os.RemoveAll(i.Dir)
	}
	return errors.Join(err, i.lock.Close())
}

// clear ends the processes in the lab's namespaces and cgroups, and removes both.
func (i Info) clear() error {
	names, err := netns.List(i.prefix())
	if err != nil {
		return err
	}
	errs := []error{i.clearCgroup()}
	if len(names) > 0 {
		errs = append(errs, endInside(names))
	}
	return errors.Join(append(errs, removeAll(names)...)...)
}

// removeAtOnce is the number of namespaces removed in parallel: the kernel waits for a grace period
// for each.
const removeAtOnce = 16

func removeAll(names []string) []error {
	errs := make([]error, len(names))
	var group errgroup.Group
	group.SetLimit(removeAtOnce)
	for i, name := range names {
		group.Go(func() error {
			errs[i] = netns.Remove(name)
			return nil
		})
	}
	_ = group.Wait()
	return errs
}
