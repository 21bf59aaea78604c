// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weir/core/module"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
)

// many returns a policy with n scopes of one user each.
func many(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "  s%d: {user: %d, egress: 10Mbit}\n", i, 1000+i)
	}
	return text.String()
}

// Ten scopes take at most 2 MiB on a machine with 128 CPUs.
func TestMemoryFollowsThePolicy(t *testing.T) {
	h := coreHost(t)
	plane := &policer{h}
	if _, err := plane.Apply(module.State{}, bound(t, h, map[string]int{}, many(10))); err != nil {
		t.Fatal(err)
	}
	pins, err := os.ReadDir(h.Pins)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, pin := range pins {
		m, err := ebpf.LoadPinnedMap(filepath.Join(h.Pins, pin.Name()), nil)
		if err != nil {
			continue // a program or a link
		}
		bytes := testutil.MapMemory(t, m, 128)
		_ = m.Close()
		t.Logf("%s: %d bytes", pin.Name(), bytes)
		sum += bytes
	}
	if sum == 0 {
		t.Error("no map is pinned")
	}
	if sum > 2<<20 {
		t.Errorf("the maps take %d bytes, want %d at most", sum, 2<<20)
	}
}

// A growing policy keeps the counters and the state of sockets, also after a crash inside the
// change.
func TestADataPlaneGrowsWithItsPolicy(t *testing.T) {
	h, index := coreHost(t), map[string]int{}
	if err := os.Mkdir(filepath.Join(h.CgroupRoot, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	client, server, address := path(t)
	h.Namespaces = func(each func(*netns.Namespace) error) error { return each(client) }
	plane, have := &policer{h}, module.State{}
	lead := func(text string) *police.DataPlane {
		t.Helper()
		want := bound(t, h, index, text)
		if _, err := plane.Apply(have, want); err != nil {
			t.Fatal(err)
		}
		have = want
		opened, err := police.LoadPinned(h.Pins)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		return opened
	}
	const first = "  a: {cgroup: /a, egress: 10Mbit, ingress: 20Mbit}\n"
	small := lead(first)
	process, answers := talker(t, cgroup.Cgroup{Path: filepath.Join(h.CgroupRoot, "a")}, client, echo(t, server, address))
	exchange := func() (rate uint32) {
		t.Helper()
		if _, err := fmt.Fprintln(process.In); err != nil || !answers.Scan() {
			t.Fatalf("the talker has ended: %v", err)
		}
		if _, err := fmt.Sscan(answers.Text(), &rate); err != nil {
			t.Fatal(err)
		}
		return rate
	}
	answers.Scan()
	exchange()
	before := counters(t, small, 0)
	large := lead(first + many(20))
	if small.Scopes() != module.Entries(1) || large.Scopes() != module.Entries(21) {
		t.Errorf("room for %d scopes and then for %d", small.Scopes(), large.Scopes())
	}
	exchange()
	if after := counters(t, large, 0); before.Bytes == 0 || after.Bytes < before.Bytes+64<<10 {
		t.Errorf("%d octets before and %d after a call more", before.Bytes, after.Bytes)
	}
	if got := testutil.CountPrograms(t, h.CgroupRoot); got != [3]int{1, 1, 1} {
		t.Errorf("%v programs are attached", got)
	}
	if in, err := plane.InPlace(have); err != nil || !in {
		t.Errorf("in place: %t, %v", in, err)
	}
	// As a crash leaves it.
	if err := errors.Join(os.Mkdir(filepath.Join(h.Pins, bpffs.Replaced), 0o700), os.Rename(filepath.Join(h.Pins, "rtts"), filepath.Join(h.Pins, "rtts"+bpffs.NextSuffix))); err != nil {
		t.Fatal(err)
	}
	if in, err := plane.InPlace(have); err != nil || in {
		t.Errorf("in place though it was growing: %t, %v", in, err)
	}
	lead(first + many(20))
	if got := testutil.CountPrograms(t, h.CgroupRoot); got != [3]int{1, 1, 1} {
		t.Errorf("%v programs are attached after a crash", got)
	}
	if _, err := plane.Release(); err != nil {
		t.Fatal(err)
	}
	if got := exchange(); got != 1<<32-1 {
		t.Errorf("the socket is paced at %d octet/s after all limits have ended", got)
	}
}
