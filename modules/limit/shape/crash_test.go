// SPDX-License-Identifier: Apache-2.0

package shape

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/core/match"
	"weir/internal/direction"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

// applier names the variable that makes the test binary install and remove all shapers until it is
// killed.
const applier = "WEIR_TEST_DELAY"

func TestMain(m *testing.M) {
	at := strings.Split(os.Getenv(applier), " ")
	if len(at) != 6 {
		os.Exit(m.Run())
	}
	h := Host{Pins: at[0], Devices: at[1], Files: at[2], CgroupRoot: at[3]}
	ns, err := netns.OpenPath(at[4])
	if err != nil {
		panic(err)
	}
	index := len(at[5])
	for {
		err := ns.Do(func() error {
			had := everything(index).Assignments
			all := []Work{everything(index), more(index), {}}
			if by, err := Available(direction.Egress); err == nil && by == Fq {
				all = append(all, scoped(true), scoped(false), scoped(true), Work{})
			}
			for _, w := range all {
				if err := h.Apply(had, w); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			panic(err)
		}
	}
}

// everything returns shapers of both directions of a device and, with kernel support, of a scope.
func everything(index int) (w Work) {
	for _, d := range direction.Both {
		s := stage{index: index}
		w.Shapers = append(w.Shapers, s.shaper(d, time.Second))
	}
	if by, err := Available(direction.Egress); err == nil && by == Fq {
		l := w.Shapers[0]
		l.Device, l.Index, l.Direction = "", 3, direction.Egress
		w.Shapers = append(w.Shapers, l)
		w.Assignments = match.Assignments{match.OfPrefix(netip.MustParsePrefix("10.9.0.0/16")): 3}
	}
	return w
}

// more is everything and so many scopes that the maps grow.
func more(index int) Work {
	w := everything(index)
	for i := range 20 {
		l := w.Shapers[0]
		l.Device, l.Index, l.Direction = "", 10+i, direction.Egress
		w.Shapers = append(w.Shapers, l)
	}
	return w
}

// formerTrees are qdisc trees of eth0 by the qdisc that they need, as arguments of tc(8).
var formerTrees = map[string][]string{
	"":      {},
	"tbf":   {"qdisc add dev eth0 root handle 5: tbf rate 20mbit burst 20k limit 60k"},
	"pfifo": {"qdisc add dev eth0 root pfifo limit 77"},
	"htb": {"qdisc add dev eth0 root handle 5: htb default 20", "class add dev eth0 parent 5: classid 5:20 htb rate 10mbit ceil 20mbit",
		"qdisc add dev eth0 parent 5:20 handle 7: pfifo limit 9"},
	"fq":       {"qdisc add dev eth0 root fq limit 777"},
	"fq_codel": {"qdisc add dev eth0 root handle 5: fq_codel target 7ms"},
}

// putFormer replaces the tree of eth0 by a random one that this kernel has.
func putFormer(t *testing.T, s *stage, random *rand.Rand) {
	t.Helper()
	tool := testutil.Command(t, "tc")
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(formerTrees)), func(kind string) bool { return kind != "" && probes.qdisc(kind) != nil })
	kind := kinds[random.IntN(len(kinds))]
	s.do(func() error {
		_ = exec.Command(tool, "qdisc", "del", "dev", "eth0", "root").Run() // fails without a tree of its own
		for _, line := range formerTrees[kind] {
			if out, err := exec.Command(tool, strings.Fields(line)...).CombinedOutput(); err != nil {
				return fmt.Errorf("tc %s: %w: %s", line, err, out)
			}
		}
		return nil
	})
}

// cycles returns the number of kills: 20, or that of WEIR_TEST_CYCLES.
func cycles(t *testing.T) int {
	t.Helper()
	text := os.Getenv("WEIR_TEST_CYCLES")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// After a kill at any point, the next process completes or reverts the change, and the device gets
// its former qdiscs back.
func TestKilledAnywhere(t *testing.T) {
	s := newStage(t)
	random := testutil.Rand(t)
	for i := range cycles(t) {
		putFormer(t, s, random)
		before := s.state()
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), applier+"="+strings.Join([]string{s.host.Pins, s.host.Devices, s.host.Files, s.host.CgroupRoot,
			s.here.Path(), strings.Repeat("x", s.index)}, " "))
		var failed strings.Builder
		child.Stderr = &failed
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		_ = child.Process.Kill()
		_ = child.Wait()
		if failed.Len() > 0 {
			t.Fatalf("before it was killed: %s", failed.String())
		}
		if i%2 == 0 {
			s.do(func() error { return s.host.Apply(nil, more(s.index)) })
			s.do(func() error {
				in, err := s.host.InPlace(more(s.index))
				if !in {
					t.Error("the shapers are not in place")
				}
				return err
			})
		}
		s.do(func() error { _, err := s.host.Release(); return err })
		if after := s.state(); after != before {
			t.Fatalf("left behind:\n%s\nwas:\n%s", after, before)
		}
		for _, dir := range []string{s.host.Pins, s.host.Files} {
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
				t.Fatalf("left behind: %v", left)
			}
		}
	}
}
