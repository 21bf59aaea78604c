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

	"weir/internal/fault"
)

// Controller is the daemon that follows the policy, or the last one that did.
type Controller struct {
	Running bool      `json:"running"`
	PID     int       `json:"pid"`
	Policy  string    `json:"policy"` // file
	Started time.Time `json:"started"`
	// LastSeen is when it was last seen at work; if it does not run, it has been away since then.
	LastSeen time.Time `json:"last_seen,omitzero"`
	// Before is when the controller before this one was last seen.
	Before time.Time `json:"before,omitzero"`
	// Problem says why the policy file is not what is in force. Of one that does not run it is not
	// told: the file may be another by now.
	Problem string `json:"problem,omitempty"`
}

// A controller holds a lock on one file, whose time of change is its sign of life, and describes
// itself in another. The kernel gives the lock up whatever ends the process.
const (
	presenceLock = "controller.lock"
	presenceFile = "controller.json"
)

// presence is a controller's own hold on the state folder.
type presence struct {
	dir  string
	lock *os.File
	self Controller
	said bool // that it is at work
}

// enter makes this process the controller of the state folder; there is at most one. Others see it
// once it announces itself.
func enter(dir, policy string) (*presence, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, notPermitted(fmt.Errorf("announce controller: %w", err))
	}
	before, err := readController(dir)
	if err != nil {
		return nil, err
	}
	// Who may read it may lock it, and so keep the controller out.
	lock, err := os.OpenFile(filepath.Join(dir, presenceLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = lock.Chmod(0o600)
	}
	if err != nil {
		return nil, notPermitted(fmt.Errorf("announce controller: %w", err))
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
	p := &presence{dir: dir, lock: lock, self: Controller{PID: os.Getpid(), Policy: policy, Started: time.Now().UTC()}}
	if before != nil {
		p.self.Before = before.LastSeen
	}
	return p, nil
}

// announce says that the controller is at work.
func (p *presence) announce() error {
	p.said = true
	return errors.Join(p.describe(""), p.beat())
}

// describe writes down who the controller is, and what keeps the policy file from being in force.
func (p *presence) describe(problem string) error {
	p.self.Problem = problem
	text, err := json.MarshalIndent(p.self, "", "  ")
	if err != nil {
		return fmt.Errorf("describe controller: %w", err)
	}
	path := filepath.Join(p.dir, presenceFile)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return notPermitted(fmt.Errorf("describe controller: %w", err))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("describe controller: %w", err)
	}
	return nil
}

// beat is the sign of life.
func (p *presence) beat() error {
	now := time.Now()
	if err := os.Chtimes(p.lock.Name(), now, now); err != nil {
		return fmt.Errorf("sign of life: %w", err)
	}
	return nil
}

// leave gives the folder up; the time of the last sign of life stays. One that was never at work
// leaves no trace of itself.
func (p *presence) leave() (err error) {
	if p.said {
		err = p.beat()
	}
	return errors.Join(err, p.lock.Close())
}

// Controller is the daemon that follows a policy on this host, or the last one that did; nil where
// there was none.
func (e *Engine) Controller() (*Controller, error) { return readController(e.StateDir) }

// readController returns nil where there was no controller.
func readController(dir string) (*Controller, error) {
	text, err := os.ReadFile(filepath.Join(dir, presenceFile))
	if none(err) {
		return nil, nil
	}
	if err != nil {
		return nil, notPermitted(fmt.Errorf("read controller: %w", err))
	}
	var c Controller
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("read controller: %w", err)
	}
	lock, err := os.Open(filepath.Join(dir, presenceLock))
	if errors.Is(err, fs.ErrNotExist) {
		c.Problem = ""
		return &c, nil
	}
	if err != nil {
		return nil, notPermitted(fmt.Errorf("read controller: %w", err))
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

// forgetController removes what a controller that is gone has left.
func forgetController(dir string) error {
	c, err := readController(dir)
	if err != nil || c == nil || c.Running {
		return err
	}
	for _, name := range []string{presenceFile, presenceLock} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove controller's state: %w", err)
		}
	}
	return nil
}
