// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/atomicfile"
	"weir/internal/fault"
)

// Controller describes the daemon that follows the policy, or the last one.
type Controller struct {
	Running bool      `json:"running"`
	PID     int       `json:"pid"`
	Policy  string    `json:"policy"` // file
	Started time.Time `json:"started"`
	// LastSeen is the time of the last heartbeat.
	LastSeen time.Time `json:"last_seen,omitzero"`
	// Before is the last heartbeat of the previous controller.
	Before time.Time `json:"before,omitzero"`
	// Problem is the reason why the policy file is not active. It is empty for a dead controller,
	// because the file may have changed since.
	Problem string `json:"problem,omitempty"`
}

// A controller holds a lock on one file, with the time of its heartbeat as modification time, and
// describes itself in another. The kernel releases the lock when the process ends.
const (
	leaseLock = "controller.lock"
	leaseFile = "controller.json"
)

// Lease is the exclusive hold of a controller on the state folder. Its lock ends with the process.
type Lease struct {
	dir       string
	lock      *os.File
	self      Controller
	announced bool
}

// AcquireLease makes this process the controller of the state folder. There is at most one. Other
// processes see it after Announce.
func AcquireLease(dir, policy string) (*Lease, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, NotPermitted(fmt.Errorf("announce controller: %w", err))
	}
	before, err := readController(dir)
	if err != nil {
		return nil, err
	}
	// Read access would let another user lock the file and keep the controller out.
	lock, err := os.OpenFile(filepath.Join(dir, leaseLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = lock.Chmod(0o600)
	}
	if err != nil {
		return nil, NotPermitted(fmt.Errorf("announce controller: %w", err))
	}
	err = unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		_ = lock.Close()
		return nil, fault.New(fault.Failed, "stop the one that runs; 'weir status' names its process", "another controller follows a policy on this host")
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("announce controller: %w", err)
	}
	p := &Lease{dir: dir, lock: lock, self: Controller{PID: os.Getpid(), Policy: policy, Started: time.Now().UTC()}}
	if before != nil {
		p.self.Before = before.LastSeen
	}
	return p, nil
}

// Announce publishes the controller.
func (p *Lease) Announce() error {
	p.announced = true
	return errors.Join(p.Describe(""), p.Heartbeat())
}

// Describe publishes the controller's process and the reason why its policy file is not active.
func (p *Lease) Describe(problem string) error {
	p.self.Problem = problem
	text, err := json.MarshalIndent(p.self, "", "  ")
	if err != nil {
		return fmt.Errorf("describe controller: %w", err)
	}
	path := filepath.Join(p.dir, leaseFile)
	if err := atomicfile.WriteBytes(path, 0o644, append(text, '\n')); err != nil {
		return NotPermitted(fmt.Errorf("describe controller: %w", err))
	}
	return nil
}

// Problem returns the published reason.
func (p *Lease) Problem() string { return p.self.Problem }

// Heartbeat renews the lease's time stamp.
func (p *Lease) Heartbeat() error {
	now := time.Now()
	if err := os.Chtimes(p.lock.Name(), now, now); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// Release gives up the lease and keeps the time of the last heartbeat. A lease without Announce
// leaves no trace.
func (p *Lease) Release() (err error) {
	if p.announced {
		err = p.Heartbeat()
	}
	return errors.Join(err, p.lock.Close())
}

// Controller returns the daemon that follows a policy on this host, or the last one; nil if there
// was none.
func (e *Engine) Controller() (*Controller, error) { return readController(e.StateDir) }

// readController returns nil if there was no controller.
func readController(dir string) (*Controller, error) {
	text, err := os.ReadFile(filepath.Join(dir, leaseFile))
	if none(err) {
		return nil, nil
	}
	if err != nil {
		return nil, NotPermitted(fmt.Errorf("read controller: %w", err))
	}
	var c Controller
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("read controller: %w", err)
	}
	lock, err := os.Open(filepath.Join(dir, leaseLock))
	if errors.Is(err, fs.ErrNotExist) {
		c.Problem = ""
		return &c, nil
	}
	if err != nil {
		return nil, NotPermitted(fmt.Errorf("read controller: %w", err))
	}
	defer func() { _ = lock.Close() }()
	held := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(lock.Fd(), unix.F_OFD_GETLK, &held); err != nil {
		return nil, fmt.Errorf("read controller: %w", err)
	}
	if c.Running = held.Type != unix.F_UNLCK; !c.Running {
		c.Problem = ""
	}
	info, err := lock.Stat()
	if err != nil {
		return nil, fmt.Errorf("read controller: %w", err)
	}
	c.LastSeen = info.ModTime().UTC()
	return &c, nil
}

// forgetController removes the files of a dead controller.
func forgetController(dir string) error {
	c, err := readController(dir)
	if err != nil || c == nil || c.Running {
		return err
	}
	for _, name := range []string{leaseFile, leaseLock} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove controller's state: %w", err)
		}
	}
	return nil
}
