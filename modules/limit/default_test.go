// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/core/module"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/limit/police"
	"weir/modules/limit/shape"
)

// modes returns the mode of each direction of an applied state, by scope and direction, and the
// reasons of policed ones.
func (d *shapedHost) modes() (modes, reasons map[string]string) {
	modes, reasons = map[string]string{}, map[string]string{}
	d.do(func() error {
		report, err := d.plane.Report(d.have)
		for _, row := range report.Rows {
			modes[row.Scope+" "+row.Part], reasons[row.Scope+" "+row.Part] = row.Mode, row.Reason
		}
		return err
	})
	return modes, reasons
}

func (d *shapedHost) planNotes() (notes []string) {
	d.do(func() error { notes = d.plane.(module.PlanNoter).PlanNotes(d.have); return nil })
	return notes
}

// statusNotes returns the notes of the status with a text.
func (d *shapedHost) statusNotes(text string) (notes []string) {
	d.do(func() error {
		report, err := d.plane.Report(d.have)
		notes = slices.DeleteFunc(report.Note, func(s string) bool { return !strings.Contains(s, text) })
		return err
	})
	return notes
}

// On a host that forwards, packets of containers match no cgroup at a device: such scopes keep the
// mode that limits them.
func TestTheDefaultModeLimitsContainers(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	d.do(func() error {
		testutil.Need(t, "bridge", exec.Command("ip", "link", "add", "br0", "type", "bridge").Run())
		state := bound(t, d.host, map[string]int{}, "  a: {user: 7, egress: 8Mbit}\n  b: {prefix: 192.0.2.0/24, egress: 8Mbit}\n  c: {netns: nowhere-7f, egress: 8Mbit}\n  d: {host: true, egress: 8Mbit}\n")
		got, fallbacks, _ := chooseModes(d.plane.(*plane).shape, state)
		for scope, want := range map[int]string{0: police.ModePolice, 1: police.ModeShape, 3: police.ModePolice} {
			if mode := treatmentOf(got.Scopes[scope].Scope).Egress.Mode; mode != want {
				t.Errorf("%s: %s, want %s: %+v", got.Scopes[scope].Name, mode, want, fallbacks)
			}
		}
		return nil
	})
}

// Scopes with packets that the devices of this network namespace do not show as such, or show
// twice, are policed.
func TestTheDefaultModeLimitsPacketsThatNoDeviceShows(t *testing.T) {
	for _, test := range []struct {
		on      surroundings
		policed []string
	}{
		{surroundings{}, nil},
		{surroundings{forwards: true}, []string{"host", "user"}},
		{surroundings{tunnel: "wg0"}, []string{"prefix"}},
		{surroundings{stacked: "ppp0"}, []string{"host", "prefix", "user"}},
		{surroundings{uplink: func() (string, error) { return "eth1 of another", nil }}, []string{"host", "prefix", "user"}},
	} {
		c := &modeSelection{facts: facts{surrounding: func() surroundings { return test.on }}}
		var got []string
		for _, kind := range []string{"host", "interface", "netns", "prefix", "user"} {
			if c.unseen(kind).why != "" {
				got = append(got, kind)
			}
		}
		if !slices.Equal(got, test.policed) {
			t.Errorf("%+v: %q policed, want %q", test.on, got, test.policed)
		}
	}
}

// A device that is moved into another network namespace is found, and a veth is none.
func TestUplinksOfOtherNamespaces(t *testing.T) {
	d := newShapedHost(t)
	other := testutil.Namespace(t, "other")
	before := namespaces
	t.Cleanup(func() { namespaces = before })
	namespaces = func(each func(*netns.Namespace) error) error { return errors.Join(each(d.client), each(other)) }
	find := func() (found string) {
		d.do(func() (err error) { found, err = anUplink(); return err })
		return found
	}
	shell := func(line string) {
		t.Helper()
		d.do(func() error { return exec.Command("sh", "-c", line).Run() })
	}
	shell("ip link add v0 type veth peer name v1 netns " + other.Name + " && ip -n " + other.Name + " link set v1 up")
	if got := find(); got != "" {
		t.Errorf("uplink %q, want none", got)
	}
	d.do(func() error {
		testutil.Need(t, "macvlan", exec.Command("ip", "link", "add", "mac0", "link", "eth0", "netns", other.Name, "type", "macvlan").Run())
		return nil
	})
	shell("ip -n " + other.Name + " link set mac0 up")
	if got := find(); !strings.HasPrefix(got, "mac0 of the network namespace net:[") {
		t.Errorf("uplink %q, want mac0", got)
	}
}

// A limit without a mode is shaped where fq exists. Elsewhere it is policed, and plan and status
// name the reason.
func TestTheDefaultModeFollowsTheKernel(t *testing.T) {
	d := newShapedHost(t)
	d.apply("  a: {interface: eth0, egress: 8Mbit}\n  b: {user: 7, egress: 8Mbit}\n")
	want, why := police.ModeShape, ""
	if by, _ := shape.Available(Egress); by != shape.Fq {
		want, why = police.ModePolice, "the kernel has no fq"
	}
	modes, reasons := d.modes()
	for _, at := range []string{"a egress", "b egress"} {
		if modes[at] != want || reasons[at] != why {
			t.Errorf("%s: mode %q for %q, want %q for %q", at, modes[at], reasons[at], want, why)
		}
	}
	notes := slices.DeleteFunc(d.planNotes(), func(s string) bool { return !strings.Contains(s, "policed instead of shaped") })
	if (len(notes) == 1) != (why != "") || why != "" && !strings.HasPrefix(notes[0], "a egress, b egress policed instead of shaped: "+why) {
		t.Errorf("notes %q", notes)
	}
	d.do(func() error {
		in, err := d.plane.InPlace(d.have)
		if !in {
			t.Error("the limits are not in place")
		}
		return err
	})
	exchange := d.talk(0)
	exchange()
}

// The default follows a change of the device: with queues that cannot be restored it is policed.
func TestTheDefaultModeLeavesQueuesThatCannotBeRestored(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	tc := func(args string) {
		t.Helper()
		d.do(func() error {
			out, err := exec.Command(testutil.Command(t, "tc"), strings.Fields(args)...).CombinedOutput()
			if err != nil {
				t.Logf("%s", out)
			}
			return err
		})
	}
	const scopes = "  a: {interface: eth0, egress: 8Mbit}\n  b: {user: 7, egress: 8Mbit}\n"
	tc("qdisc add dev eth0 root handle 1: stab linklayer atm mpu 84 tsize 128 pfifo limit 7")
	d.apply(scopes)
	modes, reasons := d.modes()
	if modes["a egress"] != police.ModePolice || modes["b egress"] != police.ModePolice || !strings.Contains(reasons["b egress"], "could not be restored") {
		t.Errorf("modes %v for %v", modes, reasons)
	}
	tc("qdisc del dev eth0 root")
	if notes := d.statusNotes("could be shaped now"); len(notes) != 2 {
		t.Errorf("notes %q, want one for each scope", notes)
	}
	d.do(func() error {
		if in, err := d.plane.InPlace(d.have); !in || err != nil {
			t.Errorf("in place %t, %v, as applied", in, err)
		}
		if outdated, err := d.plane.(*plane).Outdated(d.have); !outdated || err != nil {
			t.Errorf("outdated %t, %v, where the limits could be shaped", outdated, err)
		}
		return nil
	})
	d.apply(scopes)
	if notes := d.statusNotes("apply the policy again"); len(notes) != 0 {
		t.Errorf("notes %q after an apply", notes)
	}
	if modes, _ := d.modes(); modes["a egress"] != police.ModeShape || modes["b egress"] != police.ModeShape {
		t.Errorf("modes %v, want both shaped", modes)
	}
}

// The default keeps the parallel queues of a device.
func TestTheDefaultModeKeepsParallelQueues(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	d.do(func() error {
		for _, line := range []string{"ip link add m0 numtxqueues 4 type veth peer name m1", "ip link set m0 up", "tc qdisc add dev m0 root handle 1: mq"} {
			if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", line, err, out)
			}
		}
		for _, scope := range []string{"interface: m0", "user: 7"} {
			_, fallbacks, _ := chooseModes(d.plane.(*plane).shape, bound(t, d.host, map[string]int{}, "  a: {"+scope+", egress: 8Mbit}\n"))
			if len(fallbacks) != 1 || !strings.Contains(fallbacks[0].why, "parallel queues (mq) of m0") {
				t.Errorf("%s: %+v", scope, fallbacks)
			}
		}
		return nil
	})
}

// With an explicit mode beside it, the next look chooses the same modes, though Weir has replaced
// the parallel queues.
func TestTheDefaultModeIgnoresTheOrderOfApplies(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	d.do(func() error {
		return exec.Command("sh", "-c", "ip link add m0 numtxqueues 4 type veth peer name m1 && ip link set m0 up && tc qdisc add dev m0 root handle 1: mq").Run()
	})
	const scopes = "  a: {interface: m0, egress: {rate: 8Mbit, mode: shape}}\n  b: {user: 7, egress: 8Mbit}\n"
	d.apply(scopes)
	first, _ := d.modes()
	d.do(func() error {
		if outdated, err := d.plane.(*plane).Outdated(d.have); outdated || err != nil {
			t.Errorf("outdated %t, %v", outdated, err)
		}
		return nil
	})
	d.apply(scopes)
	if second, _ := d.modes(); !maps.Equal(first, second) || first["b egress"] != police.ModePolice {
		t.Errorf("modes %v, then %v", first, second)
	}
}

// Another program that takes the queues of a device keeps them, and the limits are policed.
func TestTheDefaultModeLeavesQueuesThatAnotherProgramTakes(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	t.Cleanup(func() { failures.at = nil })
	const scopes = "  a: {interface: eth0, egress: 8Mbit}\n  b: {user: 7, egress: 8Mbit}\n"
	d.apply(scopes)
	tc := func(args ...string) (text string) {
		d.do(func() error {
			out, err := exec.Command(testutil.Command(t, "tc"), args...).CombinedOutput()
			text = string(out)
			return err
		})
		return text
	}
	tc("qdisc", "replace", "dev", "eth0", "root", "handle", "5:", "pfifo")
	d.apply(scopes)
	modes, reasons := d.modes()
	for _, at := range []string{"a egress", "b egress"} {
		if modes[at] != police.ModePolice || !strings.Contains(reasons[at], "another program has replaced the queues of eth0 by pfifo 5:") {
			t.Errorf("%s: %s for %q", at, modes[at], reasons[at])
		}
	}
	if text := tc("qdisc", "show", "dev", "eth0"); !strings.Contains(text, "pfifo 5: root") {
		t.Errorf("qdiscs %s", text)
	}
}

// Some directions are policed on every kernel, and a tree has one mode.
func TestObstaclesToShaping(t *testing.T) {
	d := newShapedHost(t)
	for scopes, want := range map[string]string{
		"  a: {user: 7, ingress: 8Mbit}\n":                                                                     "received packets have no socket yet",
		"  a: {user: 7, egress: 8Mbit, loopback: true}\n":                                                      "packets over lo",
		"  a: {parent: g, user: 7, egress: {rate: 8Mbit, min: 1Mbit}}\n  g: {egress: 9Mbit}\n":                 "no minimum",
		"  a: {parent: g, user: 7}\n  c: {parent: g, user: 8, egress: {mode: police}}\n  g: {egress: 9Mbit}\n": "scope c of the same tree has mode: police",
	} {
		d.do(func() error {
			state := bound(t, d.host, map[string]int{}, scopes)
			got, fallbacks, _ := chooseModes(d.plane.(*plane).shape, state)
			i := slices.IndexFunc(fallbacks, func(f fallback) bool { return f.scope == "a" })
			if i < 0 || !strings.Contains(fallbacks[i].why, want) {
				t.Errorf("%s: %+v, want %q", scopes, fallbacks, want)
			}
			for _, b := range got.Scopes {
				if !policed(b.Scope, Egress) && !policed(b.Scope, Ingress) {
					t.Errorf("%s: scope %s is not policed", scopes, b.Name)
				}
			}
			return nil
		})
	}
}

// A lack of descriptors is no reason to change the mode.
func TestALackOfDescriptorsIsNoObstacle(t *testing.T) {
	c := &modeSelection{}
	c.obstacleOf(fmt.Errorf("open: %w", unix.EMFILE))
	if c.failed == nil {
		t.Error("no error")
	}
	c = &modeSelection{}
	if c.obstacleOf(errors.New("its tree cannot be restored")); c.failed != nil {
		t.Error(c.failed)
	}
}

// A scope without a mode leaves the queues of a device to their owner of another module.
func TestTheDefaultModeLeavesClaimedQueues(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	for keeps, want := range map[bool]string{true: police.ModeShape, false: police.ModePolice} {
		d.do(func() error {
			state := bound(t, d.host, map[string]int{}, "  a: {interface: eth0, egress: 8Mbit}\n  b: {user: 7, egress: 8Mbit}\n")
			state.Claimed = map[string]bool{"eth0": keeps}
			got, _, _ := chooseModes(d.plane.(*plane).shape, state)
			if a, b := treatmentOf(got.Scopes[0].Scope).Egress.Mode, treatmentOf(got.Scopes[1].Scope).Egress.Mode; a != police.ModePolice || b != want {
				t.Errorf("queues that keep departure times %t: interface %s, user %s, want police and %s", keeps, a, b, want)
			}
			return nil
		})
	}
}

// Fallbacks with the same obstacle have one note, which is bounded.
func TestNotesOfFallbacks(t *testing.T) {
	o, silent := obstacle{why: "no fq", remedy: "load it"}, obstacle{why: "lo", silent: true}
	var all []fallback
	for _, name := range strings.Fields("a b c d e f g h i j") {
		all = append(all, fallback{name, Egress, o}, fallback{name, Ingress, silent})
	}
	const want = "a egress, b egress, c egress, d egress, e egress, f egress, g egress, h egress and 2 more policed instead of shaped: no fq. " +
		"QUIC and short connections use about two thirds of a policed rate; load it"
	if got := fallbackNotes(all); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}
