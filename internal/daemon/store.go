package daemon

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
	"weir/limit"
	"weir/policy"
)

const formatState = "weir-state/1"

// state is what is in force, as the last apply has left it.
type state struct {
	Format  string    `json:"format"`
	Applied time.Time `json:"applied"`
	Held    []held    `json:"scopes"`
}

// held is a scope in force: its number in the data plane, and what its selector stood for.
type held struct {
	Scope policy.Scope `json:"scope"`
	Index int          `json:"index"`
	Bound binding      `json:"bound"`
}

// scopes are the policy scopes that are held, in order.
func (s *state) scopes() []policy.Scope {
	var all []policy.Scope
	for _, h := range s.Held {
		all = append(all, h.Scope)
	}
	return all
}

// byIndex are the scopes by their numbers in the data plane.
func (s *state) byIndex() map[int]held {
	all := make(map[int]held, len(s.Held))
	for _, h := range s.Held {
		all[h.Index] = h
	}
	return all
}

// byName are the scopes by their names.
func (s *state) byName() map[string]held {
	all := make(map[string]held, len(s.Held))
	for _, h := range s.Held {
		all[h.Scope.Name] = h
	}
	return all
}

// byBinding are the scopes by what they stand for; of two that stand for the same the later one counts.
func (s *state) byBinding() map[binding]held {
	all := make(map[binding]held, len(s.Held))
	for _, h := range s.Held {
		all[h.Bound] = h
	}
	return all
}

// same says whether two ask the same of the data plane.
func (h held) same(other held) bool {
	return h.Scope.Equal(other.Scope) && h.Bound == other.Bound
}

// inForce are the scopes that are in force, for looking at alone.
func (e *Engine) inForce() ([]policy.Scope, error) {
	have, err := (&store{dir: e.StateDir}).read(current)
	if err != nil || have == nil {
		return nil, err
	}
	return have.scopes(), nil
}

// store keeps state and journal in a folder. The lock is held from open to close.
type store struct {
	dir  string
	lock *os.File
}

// openStore makes the folder, and waits for the lock.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, notPermitted(fmt.Errorf("open policy state: %w", err))
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, notPermitted(fmt.Errorf("open policy state: %w", err))
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock policy state: %w", err)
	}
	return &store{dir, lock}, nil
}

// notPermitted says what opens files of another user, usually root's from an earlier command. The rights to BPF do not.
func notPermitted(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.Permission, limit.ForFiles)
	}
	return err
}

func (s *store) close() { _ = s.lock.Close() }

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// read returns a stored document, or nil where there is none.
func (s *store) read(name string) (*state, error) {
	text, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, notPermitted(fmt.Errorf("read policy state: %w", err))
	}
	var have state
	if err := json.Unmarshal(text, &have); err != nil {
		return nil, fault.New(fault.Failed, "end all limits with: weir release", "read %s: %w", s.path(name), err)
	}
	if have.Format != formatState {
		return nil, fault.New(fault.Failed, "use the Weir that wrote it, or end all limits with: weir release",
			"%s has the format %q, this Weir reads %q", s.path(name), have.Format, formatState)
	}
	return &have, nil
}

// write replaces a stored document as a whole: after a crash the old or the new one is there.
func (s *store) write(name string, want *state) error {
	text, err := json.Marshal(want)
	if err != nil {
		return fmt.Errorf("write policy state: %w", err)
	}
	file, err := os.CreateTemp(s.dir, name+".*")
	if err != nil {
		return notPermitted(fmt.Errorf("write policy state: %w", err))
	}
	_, err = file.Write(append(text, '\n'))
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), s.path(name))
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write policy state: %w", err)
	}
	return nil
}

// commit makes what the journal announces the current state, in one step.
func (s *store) commit() error {
	if err := os.Rename(s.path(journal), s.path(current)); err != nil {
		return fmt.Errorf("commit policy state: %w", err)
	}
	return nil
}

// remove removes a stored document; a missing one is no error.
func (s *store) remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove policy state: %w", err)
	}
	return nil
}

const (
	current = "state.json"
	journal = "journal.json"
)
