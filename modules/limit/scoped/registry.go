// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/direction"
	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/modules/limit/police"
)

// prefix begins the names of the cgroups, which lie below the root of the hierarchy, or with a
// lender below the user's cgroup.
const prefix = "weir-run-"

// Running is a command under limits, in a class of service, or both.
//
// Its file is created before its cgroup and locked by the limiting process for its lifetime. Only
// root can read it: a reader could lock it, and arguments are confidential.
type Running struct {
	ID      string                                   `json:"id"`
	PID     int                                      `json:"pid" doc:"Process that requested it."`
	User    *uint32                                  `json:"uid,omitempty" doc:"Requesting user, with a lender."`
	Command []string                                 `json:"command"`
	Started time.Time                                `json:"started"`
	Cgroup  string                                   `json:"cgroup"`
	Class   string                                   `json:"class,omitempty"`
	Shadow  bool                                     `json:"shadow,omitempty"`
	Limits  map[direction.Direction]units.BitRate    `json:"limits,omitempty"`
	Counts  ebpf.MapID                               `json:"counters_map,omitempty"`
	Counted map[direction.Direction]*police.Counters `json:"counted,omitempty"`
	Holds   ebpf.MapID                               `json:"downloads_map,omitempty" doc:"Map with the counters of its downloads."`
}

// registry returns the folder of the files: run below WEIR_RUN_DIR, or below /run/weir.
func registry() string {
	if dir := os.Getenv("WEIR_RUN_DIR"); dir != "" {
		return filepath.Join(dir, "run")
	}
	return "/run/weir/run"
}

// register creates the file of a run under an unused name. Closing the file ends the registration.
func register(c Command, parent cgroup.Cgroup, by Requester) (*Running, *os.File, error) {
	r := &Running{PID: by.PID, User: by.User, Command: c.words(), Class: c.Class, Limits: map[direction.Direction]units.BitRate{}}
	for d, l := range c.Limits {
		r.Limits[d], r.Shadow = l.Rate, l.Shadow
	}
	if err := os.MkdirAll(registry(), 0o755); err != nil {
		return nil, nil, notPermitted(fmt.Errorf("register run: %w", err))
	}
	for {
		var random [8]byte
		_, _ = rand.Read(random[:])
		r.ID = hex.EncodeToString(random[:])
		file, err := os.OpenFile(r.path(), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, nil, notPermitted(fmt.Errorf("register run: %w", err))
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("register run: %w", err), file.Close())
		}
		if _, err := os.Stat(r.path()); err == nil {
			r.Cgroup = filepath.Join(parent.Path, prefix+r.ID) // recorded before it is created
			if err := r.describe(file); err != nil {
				return nil, nil, errors.Join(err, os.Remove(r.path()), file.Close())
			}
			return r, file, nil
		}
		_ = file.Close() // RemoveStale removed it before it was locked
	}
}

func notPermitted(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fault.Wrap(err, fault.Permission, lenderAdvice)
	}
	return err
}

func (r *Running) path() string { return filepath.Join(registry(), r.ID+".json") }

// describe writes the current state to the file.
func (r *Running) describe(file *os.File) error {
	text, err := json.Marshal(r)
	if err == nil {
		_, err = file.WriteAt(text, 0)
	}
	if err != nil {
		return fmt.Errorf("update registry entry: %w", err)
	}
	return nil
}

// List returns the commands under limits or in a class, with their counters. Without the privilege
// to read the registry the list is empty.
func List() (all []Running, err error) {
	err = each(func(path string, active bool) error {
		var r Running
		text, err := os.ReadFile(path)
		if err != nil || !active || json.Unmarshal(text, &r) != nil || r.Started.IsZero() {
			return nil // ended or not started
		}
		r.Counted = map[direction.Direction]*police.Counters{}
		for d := range r.Limits {
			if counted, err := police.ReadCounts(r.Counts, 0, d); err == nil {
				r.Counted[d] = &counted
			}
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

// each calls f for every file; active reports whether its process holds the lock.
func each(f func(path string, active bool) error) error {
	paths, err := filepath.Glob(filepath.Join(registry(), "*.json"))
	if err != nil {
		return fmt.Errorf("list runs: %w", err)
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list runs: %w", err)
		}
		active := errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
		err = errors.Join(f(path, active), file.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveStale removes the cgroups and files of killed runs, once the cgroups are empty.
func RemoveStale() error {
	root, err := cgroup.Root()
	if err != nil {
		return err
	}
	groups, err := filepath.Glob(filepath.Join(root, prefix+"*"))
	if err != nil {
		return fmt.Errorf("find stale cgroups: %w", err)
	}
	known := map[string]bool{}
	err = each(func(path string, active bool) error {
		id := strings.TrimSuffix(filepath.Base(path), ".json")
		known[id] = true
		if active {
			return nil
		}
		var r Running
		if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &r) != nil || r.Cgroup == "" {
			r.Cgroup = filepath.Join(root, prefix+id)
		}
		if r.remove() == nil {
			_ = os.Remove(path)
		}
		return nil
	})
	for _, path := range groups {
		id := strings.TrimPrefix(filepath.Base(path), prefix)
		pid, notNumber := strconv.Atoi(id) // earlier versions used the PID
		dead := notNumber == nil && unix.Kill(pid, 0) == unix.ESRCH || notNumber != nil && old(path)
		if !known[id] && dead {
			_ = cgroup.Cgroup{Path: path}.RemoveAll() // fails while it contains processes
		}
	}
	return err
}

// remove removes the cgroup of a run with its children. A user cannot create children in a lent
// cgroup, and a cgroup that replaced it is not traversed.
func (r *Running) remove() error {
	group := cgroup.Cgroup{Path: r.Cgroup}
	if r.User != nil {
		return group.Remove()
	}
	return group.RemoveAll()
}

// orphanAge is the minimum age of an unregistered cgroup before removal: a younger one may belong
// to a process with another WEIR_RUN_DIR.
const orphanAge = time.Minute

func old(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > orphanAge
}
