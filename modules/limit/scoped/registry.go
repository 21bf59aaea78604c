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

	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/cgroup"
	"weir/modules/limit"
)

// prefix begins the names of the cgroups, which lie below the root of the hierarchy, or below the
// cgroup of a user to whom rights are lent.
const prefix = "weir-run-"

// Running is a command under limits, in a class of service, or both.
//
// Its file is there before its cgroup is, and locked by the process that limits it for as long as
// that lives. Root alone can read it: who can read a file can lock it, and the arguments of a
// command are nobody's business.
type Running struct {
	ID      string                              `json:"id"`
	PID     int                                 `json:"pid" doc:"Of the process that asked for it."`
	User    *uint32                             `json:"uid,omitempty" doc:"Of the user to whom the rights are lent."`
	Command []string                            `json:"command"`
	Started time.Time                           `json:"started"`
	Cgroup  string                              `json:"cgroup"`
	Class   string                              `json:"class,omitempty"`
	Shadow  bool                                `json:"shadow,omitempty"`
	Limits  map[limit.Direction]units.BitRate   `json:"limits,omitempty"`
	Counts  ebpf.MapID                          `json:"counters_map,omitempty"`
	Counted map[limit.Direction]*limit.Counters `json:"counted,omitempty"`
	Holds   ebpf.MapID                          `json:"downloads_map,omitempty" doc:"Of what was done with its downloads."`
}

// registry is the folder of the files: run below WEIR_RUN_DIR, or below /run/weir.
func registry() string {
	if dir := os.Getenv("WEIR_RUN_DIR"); dir != "" {
		return filepath.Join(dir, "run")
	}
	return "/run/weir/run"
}

// register announces a run, under a name that nobody can have taken. Closing the file ends it.
func register(c Command, parent cgroup.Cgroup, by Asker) (*Running, *os.File, error) {
	r := &Running{PID: by.PID, User: by.User, Command: c.words(), Class: c.Class, Limits: map[limit.Direction]units.BitRate{}}
	for d, l := range c.Limits {
		r.Limits[d], r.Shadow = l.Rate, l.Shadow
	}
	if err := os.MkdirAll(registry(), 0o755); err != nil {
		return nil, nil, notPermitted(fmt.Errorf("announce run: %w", err))
	}
	for {
		var random [8]byte
		_, _ = rand.Read(random[:])
		r.ID = hex.EncodeToString(random[:])
		file, err := os.OpenFile(r.path(), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, nil, notPermitted(fmt.Errorf("announce run: %w", err))
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("announce run: %w", err), file.Close())
		}
		if _, err := os.Stat(r.path()); err == nil {
			r.Cgroup = filepath.Join(parent.Path, prefix+r.ID) // written down before it is made
			if err := r.describe(file); err != nil {
				return nil, nil, errors.Join(err, os.Remove(r.path()), file.Close())
			}
			return r, file, nil
		}
		_ = file.Close() // somebody has taken it for a leftover before it was locked
	}
}

func notPermitted(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fault.Wrap(err, fault.Permission, whoLends)
	}
	return err
}

func (r *Running) path() string { return filepath.Join(registry(), r.ID+".json") }

// describe writes down what there is now.
func (r *Running) describe(file *os.File) error {
	text, err := json.Marshal(r)
	if err == nil {
		_, err = file.WriteAt(text, 0)
	}
	if err != nil {
		return fmt.Errorf("describe run: %w", err)
	}
	return nil
}

// List lists the commands under limits or in a class, with what limits have counted so far. One
// without the right to see them sees none.
func List() (all []Running, err error) {
	err = each(func(path string, held bool) error {
		var r Running
		text, err := os.ReadFile(path)
		if err != nil || !held || json.Unmarshal(text, &r) != nil || r.Started.IsZero() {
			return nil // it has ended, or has not begun
		}
		r.Counted = map[limit.Direction]*limit.Counters{}
		for d := range r.Limits {
			if counted, err := limit.ReadCounts(r.Counts, 0, d); err == nil {
				r.Counted[d] = &counted
			}
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

// each calls f for every file, and says whether who has made it lives.
func each(f func(path string, held bool) error) error {
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
		held := errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
		err = errors.Join(f(path, held), file.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// RemoveStale removes what runs that were killed have left, once their cgroups are empty.
func RemoveStale() error {
	root, err := cgroup.Root()
	if err != nil {
		return err
	}
	groups, err := filepath.Glob(filepath.Join(root, prefix+"*"))
	if err != nil {
		return fmt.Errorf("look for stale cgroups: %w", err)
	}
	known := map[string]bool{}
	err = each(func(path string, held bool) error {
		id := strings.TrimSuffix(filepath.Base(path), ".json")
		known[id] = true
		if held {
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
		pid, notNumber := strconv.Atoi(id) // earlier versions named them so
		dead := notNumber == nil && unix.Kill(pid, 0) == unix.ESRCH || notNumber != nil && old(path)
		if !known[id] && dead {
			_ = cgroup.Cgroup{Path: path}.RemoveAll() // one that still holds processes stays until they have ended
		}
	}
	return err
}

// remove removes the cgroup of a run, and those that its command has made in it. A user can make
// none in what is lent to him: what he may have put in its place is not walked through.
func (r *Running) remove() error {
	group := cgroup.Cgroup{Path: r.Cgroup}
	if r.User != nil {
		return group.Remove()
	}
	return group.RemoveAll()
}

// orphanAge is how old a cgroup is that nobody knows of: one that is younger may be of somebody who
// keeps his files elsewhere, and has just made it.
const orphanAge = time.Minute

func old(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > orphanAge
}
