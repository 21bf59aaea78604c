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

	"weir/core/module"
	"weir/core/policy"
	"weir/core/selector"
	"weir/internal/atomicfile"
	"weir/internal/fault"
	"weir/kernel/storage"
)

const formatState = "weir-state/3"

// state is the result of the last apply. Scopes are in policy order.
type state struct {
	Format  string
	Applied time.Time
	Release bool // in the journal: release everything
	// NoPolicy reports that no policy is active, only scopes of other owners.
	NoPolicy bool
	Scopes   []held
	Aside    []aside // by name of the scope
	Host     []policy.Item
	names    deviceNames
}

// held is an active scope: its number in the data planes and its resolved selector.
type held struct {
	policy.Scope
	Index int
	Bound selector.Binding
	Owner *Owner // nil for the policy
}

// of returns a module's part of a scope, and whether the module treats it.
func (h held) of(r module.Module, names deviceNames) (module.Bound, bool) {
	t, treats := h.Treatments[r.Name()]
	if h.Selector.Kind == selector.Interface {
		h.Selector.Text = names.resolve(h.Selector.Text)
	}
	return module.Bound{Scope: h.Scope, Index: h.Index, Binding: h.Bound, Treatment: t}, treats
}

// of returns a module's part of a state, with the kernel's names of devices.
func (s *state) of(r module.Module) (part module.State) {
	for _, h := range s.Scopes {
		if b, treats := h.of(r, s.names); treats {
			part.Scopes = append(part.Scopes, b)
		}
	}
	for _, item := range s.Host {
		if item.Module == r.Name() {
			if namer, is := item.Treatment.(policy.DeviceNamer); is && len(s.names.now) > 0 {
				item.Treatment = namer.WithDeviceNames(s.names.resolve)
			}
			part.Host = append(part.Host, item)
		}
	}
	return part
}

// scopes returns the active scopes in order.
func (s *state) scopes() []policy.Scope {
	all := make([]policy.Scope, 0, len(s.Scopes))
	for _, h := range s.Scopes {
		all = append(all, h.Scope)
	}
	return all
}

// byName returns the scopes by name.
func (s *state) byName() map[string]held {
	all := make(map[string]held, len(s.Scopes))
	for _, h := range s.Scopes {
		all[h.Name] = h
	}
	return all
}

// ActiveSelectors returns the selectors of the active scopes, for reading only.
func (e *Engine) ActiveSelectors() (all []policy.Selector, err error) {
	have, err := e.store().read(current)
	if err != nil {
		return nil, err
	}
	for _, h := range have.Scopes {
		all = append(all, h.Selector)
	}
	return all, nil
}

// store keeps state and journal in a folder. It holds the lock from open to close.
type store struct {
	dir    string
	lock   *os.File
	engine *Engine
}

// store returns a read-only store.
func (e *Engine) store() *store { return &store{dir: e.StateDir, engine: e} }

// openStore creates the folder and waits for the lock.
func (e *Engine) openStore() (*store, error) {
	if err := os.MkdirAll(e.StateDir, 0o755); err != nil {
		return nil, NotPermitted(fmt.Errorf("open policy state: %w", err))
	}
	s, err := e.lockStore(os.O_CREATE | os.O_RDWR)
	if err != nil {
		return nil, err
	}
	if err := s.tidy(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// openToEnd opens the store for a release, which must work with any state of the folder. If the
// folder is not writable, it uses an existing lock file or none.
func (e *Engine) openToEnd() (*store, error) {
	s, err := e.openStore()
	if err == nil || !storage.Unwritable(err) {
		return s, err
	}
	if s, err = e.lockStore(os.O_RDONLY); none(err) {
		return e.store(), nil
	}
	return s, err
}

func (e *Engine) lockStore(flags int) (*store, error) {
	lock, err := os.OpenFile(filepath.Join(e.StateDir, "lock"), flags, 0o600)
	if err != nil {
		return nil, NotPermitted(fmt.Errorf("open policy state: %w", err))
	}
	if err := e.waitFor(lock); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &store{e.StateDir, lock, e}, nil
}

// lockWait limits the wait for the lock. The daemon waits less.
const lockWait = 30 * time.Second

func (e *Engine) waitFor(lock *os.File) error {
	wait := e.LockWait
	if wait == 0 {
		wait = lockWait
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(wait); ; <-tick.C {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("lock policy state: %w", err)
		}
		if time.Now().After(deadline) {
			return fault.New(fault.Failed, "wait for the other command, or find it with: fuser "+lock.Name(),
				"lock policy state: another process has held %s for %s", lock.Name(), wait)
		}
	}
}

// held reports whether another process or goroutine holds the lock.
func (s *store) held() bool {
	lock, err := os.Open(s.path("lock"))
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close() }()
	return errors.Is(unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// tidy removes incomplete files of killed commands. The caller holds the lock.
func (s *store) tidy() error {
	for _, name := range []string{current, journal} {
		begun, err := filepath.Glob(s.path(name) + ".*")
		if err != nil {
			return fmt.Errorf("open policy state: %w", err)
		}
		for _, path := range begun {
			if err := os.Remove(path); err != nil {
				return NotPermitted(fmt.Errorf("open policy state: %w", err))
			}
		}
	}
	return nil
}

// forFiles is the advice for files or pins of another user.
const forFiles = "run it as root, or with CAP_DAC_OVERRIDE and CAP_FOWNER beside CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: files of another user take them"

// NotPermitted adds advice about the rights to open files of another user, usually root. The rights
// to BPF do not suffice.
func NotPermitted(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.Permission, forFiles)
	}
	return storage.Fault(err)
}

// none reports whether a file does not exist or cannot exist.
func none(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

func (s *store) close() { _ = s.lock.Close() }

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// read returns a stored document, or an empty one.
func (s *store) read(name string) (*state, error) {
	have, err := s.find(name)
	if have == nil && err == nil {
		have = &state{Format: formatState}
	}
	return have, err
}

// find returns a stored document, or nil.
func (s *store) find(name string) (*state, error) {
	text, err := os.ReadFile(s.path(name))
	if none(err) {
		return nil, nil
	}
	if err != nil {
		return nil, NotPermitted(fmt.Errorf("read policy state: %w", err))
	}
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fault.New(fault.Failed, "end everything with: weir release", "read %s: %w", s.path(name), err)
	}
	if doc.Format != formatState {
		return nil, fault.New(fault.Failed, "use the Weir that wrote it, or end everything with: weir release",
			"%s has the format %q, this Weir reads %q", s.path(name), doc.Format, formatState)
	}
	have, err := doc.state(s.engine.Modules)
	if err != nil {
		return nil, fault.New(fault.Failed, "end everything with: weir release", "read %s: %w", s.path(name), err)
	}
	return have, nil
}

// write replaces a stored document atomically.
func (s *store) write(name string, want *state) error {
	doc, err := documentOf(want)
	if err != nil {
		return err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("write policy state: %w", err)
	}
	if err := atomicfile.WriteBytes(s.path(name), 0o600, append(text, '\n')); err != nil {
		return NotPermitted(fmt.Errorf("write policy state: %w", err))
	}
	return nil
}

// commit makes the journal the current state in one step.
func (s *store) commit() error {
	if err := atomicfile.Rename(s.path(journal), s.path(current)); err != nil {
		return NotPermitted(fmt.Errorf("commit policy state: %w", err))
	}
	return nil
}

// remove removes a stored document. A missing one is no error.
func (s *store) remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil && !none(err) {
		return NotPermitted(fmt.Errorf("remove policy state: %w", err))
	}
	return nil
}

const (
	current = "state.json"
	journal = "journal.json"
)
