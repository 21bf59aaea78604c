// SPDX-License-Identifier: Apache-2.0

package lend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/kernel/cgroup"
	"weir/kernel/testutil"
	"weir/modules/limit/scoped"
)

// storm sends many requests for processes that concurrently end, execute, fork or move, on
// connections that close concurrently.
func (a *asker) storm(rounds int, home string) error {
	var children []int
	for round := range rounds {
		script := []string{"exit", "exec sleep 0.01", "sleep 0.01 & exit", "read x", "while :; do (exit); done"}[round%5]
		fds, pid, err := started(script)
		if err != nil {
			return err
		}
		children = append(children, pid)
		delay := time.Duration(rand.IntN(int(20 * time.Millisecond)))
		other := filepath.Join(home, "other")
		time.AfterFunc(delay, func() {
			_ = cgroup.Cgroup{Path: other}.Add(pid) // in a delegated tree
			_ = unix.Kill(pid, unix.SIGKILL)
		})
		at := len(a.last)
		_, _ = a.askFor(deed{Ask: scoped.Request{Format: scoped.FormatLend, Class: "lbe"}}, fds)
		for _, conn := range a.last[at:] {
			_ = conn.Close()
		}
		a.last = a.last[:at]
		if round%4 == 0 { // tries to replace the cgroups below its own
			lent, _ := filepath.Glob(filepath.Join(home, "weir-run-*"))
			for _, group := range lent {
				if os.Remove(group) == nil {
					_ = os.MkdirAll(filepath.Join(group, "inner"), 0o755)
				}
			}
		}
	}
	for _, pid := range children {
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
	lent, _ := filepath.Glob(filepath.Join(home, "weir-run-*"))
	for _, group := range lent {
		_, _ = os.Remove(filepath.Join(group, "inner")), os.Remove(group)
	}
	return nil
}

// strangers returns the processes of other users in lent cgroups.
func (s *stand) strangers(user int) (all []string) {
	s.Helper()
	pids, err := s.home.AllProcesses()
	if err != nil {
		s.Fatal(err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended
		}
		if uid, _, _ := strings.Cut(field(text, "Uid"), "\t"); uid != strconv.Itoa(user) {
			all = append(all, fmt.Sprintf("%d (%s) of user %s", pid, field(text, "Name"), uid))
		}
	}
	return all
}

// The owner of a cgroup tree cannot bring other users' processes into it. Other users are
// served, and no state is left.
func TestAStormMovesNoOtherUsersProcess(t *testing.T) {
	for _, owned := range []bool{false, true} {
		t.Run(fmt.Sprintf("owned=%t", owned), func(t *testing.T) {
			s := newStandFor(t, 200, 250)
			elsewhere := testutil.Cgroup(t)
			other, err := cgroup.Create(s.home.Path, "other")
			if err != nil {
				t.Fatal(err)
			}
			if owned {
				for _, path := range []string{s.home.Path, other.Path} {
					if err := errors.Join(os.Chown(path, alice, alice), os.Chown(filepath.Join(path, "cgroup.procs"), alice, alice)); err != nil {
						t.Fatal(err)
					}
				}
			}
			evil := []*user{newUser(t, alice, s.home, s.lender.Socket), newUser(t, alice, s.home, s.lender.Socket)}
			victim := newUser(t, bob, elsewhere, s.lender.Socket)
			testutil.Eventually(t, 30*time.Second, "the attackers are users", func() bool { return len(s.strangers(alice)) == 0 })
			ended := make(chan result)
			for _, u := range evil {
				go func() { ended <- u.do(deed{Storm: 150, Home: s.home.Path}) }()
			}
			served := 0
			for left := len(evil); left > 0; {
				select {
				case got := <-ended:
					if left--; got.Error != "" {
						t.Error(got.Error)
					}
				default:
				}
				if found := s.strangers(alice); len(found) > 0 {
					t.Errorf("in the attacker's cgroups: %v", found)
				}
				got := victim.borrowsSoon()
				if filepath.Dir(got.Group) != elsewhere.Path {
					t.Errorf("the victim's process is in %s", got.Group)
				}
				s.kill(got.PID)
				victim.do(deed{Close: true})
				served++
			}
			t.Logf("the victim was served %d times", served)
			s.gone()
		})
	}
}
