// SPDX-License-Identifier: Apache-2.0

package cc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/core/module"
	"weir/core/selector"
	"weir/internal/fault"
	"weir/kernel/bpffs"
	"weir/kernel/cgroup"
	"weir/kernel/probe"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// stage is a data plane on one cgroup, a path for connections, and a process in the cgroup's
// "inner".
type stage struct {
	*path
	plane  *hostPlane
	group  cgroup.Cgroup
	send   func(task)
	answer func() string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{path: newPath(t)}
	testutil.Need(t, "struct_ops", probe.ProgramType(ebpf.StructOps))
	s.group, s.send, s.answer = inCgroup(t)
	inner, err := cgroup.Create(s.group.Path, "inner")
	if err != nil {
		t.Fatal(err)
	}
	members, err := s.group.Processes()
	if err != nil || len(members) != 1 {
		t.Fatalf("the cgroup holds %v, %v", members, err)
	}
	if err := inner.Add(members[0]); err != nil {
		t.Fatal(err)
	}
	// The kernel's default control must differ from the tested ones.
	if err := sysctl.Set(s.client, "net.ipv4.tcp_congestion_control", "reno"); err != nil {
		t.Fatal(err)
	}
	s.plane = ownPlane(t, s.group.Path, filepath.Join(testutil.BPFFS(t), "cc"))
	return s
}

// ownPlane is a data plane with control names of the test. It must leave nothing behind.
func ownPlane(t *testing.T, root, pins string) *hostPlane {
	t.Helper()
	p := &hostPlane{module.Host{Pins: pins, CgroupRoot: root}, Module{prefix: fmt.Sprintf("wt%d_", os.Getpid())}}
	t.Cleanup(func() {
		if _, err := p.Release(); err != nil {
			t.Error(err)
		}
		p.isGone(t)
	})
	return p
}

func (p *hostPlane) isGone(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(p.host.Pins, inForceFolder, "*")); len(left) > 0 || exists(p.folder()) {
		t.Errorf("left behind: %q", left)
	}
	if slices.Contains(offered(t), p.ourName()) {
		t.Errorf("%s is still offered", p.ourName())
	}
}

// ourName is the test's name of DCTCP.
func (p *hostPlane) ourName() string {
	name, _, _ := p.module.controlName("dctcp")
	return name
}

// read binds a policy's scopes on this host.
func (p *hostPlane) read(text string) (s module.State, err error) {
	parsed, err := parse(text)
	if err != nil {
		return s, err
	}
	look := &selector.Host{CgroupRoot: p.host.CgroupRoot}
	for i, scope := range parsed.Scopes {
		bound, err := look.Bind(scope.Selector)
		if err != nil {
			return s, err
		}
		if treatmentOf(scope) != nil {
			s.Scopes = append(s.Scopes, module.Bound{Scope: scope, Index: i, Binding: bound, Treatment: scope.Treatments[moduleName]})
		}
	}
	return s, nil
}

func (p *hostPlane) state(t *testing.T, text string) module.State {
	t.Helper()
	s, err := p.read(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *hostPlane) apply(t *testing.T, have, want module.State) (notes []string) {
	t.Helper()
	if err := p.Ready(want); err != nil {
		t.Fatal(err)
	}
	notes, err := p.Apply(have, want)
	if err != nil {
		t.Fatal(err)
	}
	if in, err := p.InPlace(want); err != nil || !in {
		t.Fatalf("applied, and in place: %t, %v", in, err)
	}
	return notes
}

// counts returns the reported counters assigned, no_ecn, chosen, failed.
func (p *hostPlane) counts(t *testing.T, have module.State) map[string][4]uint64 {
	t.Helper()
	report, err := p.Report(have)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][4]uint64{}
	for _, row := range report.Rows {
		var values [4]uint64
		for i, v := range row.Values[:len(values)] {
			values[i] = v.Count
		}
		all[row.Scope] = values
	}
	return all
}

func TestConnectionsOfAScopeGetItsControl(t *testing.T) {
	s := newStage(t)
	ours := s.plane.ourName()
	own := [4]uint64{1, 0, 0, 0}
	for _, test := range []struct {
		description, scopes string
		work                task
		plain               bool // the peer does not support ECN
		want                string
		counts              map[string][4]uint64
	}{
		{"a cgroup", "  a: {cgroup: /inner, congestion: dctcp}\n", task{}, false, ours, map[string][4]uint64{"a": own}},
		{"a user", "  a: {user: 4711, congestion: dctcp}\n", task{User: 4711}, false, ours, map[string][4]uint64{"a": own}},
		{"another user", "  a: {user: 4712, congestion: dctcp}\n", task{User: 4711}, false, "reno", map[string][4]uint64{"a": {}}},
		{"a mark", "  a: {mark: 0x10, congestion: dctcp}\n", task{Mark: 0x10}, false, ours, map[string][4]uint64{"a": own}},
		{"a prefix", "  a: {prefix: 10.9.0.0/24, congestion: dctcp}\n", task{}, false, ours, map[string][4]uint64{"a": own}},
		{"a network namespace", "  a: {netns: " + s.client.Name + ", congestion: dctcp}\n", task{}, false, ours, map[string][4]uint64{"a": own}},
		{"another network namespace", "  a: {netns: " + s.server.Name + ", congestion: dctcp}\n", task{}, false, "reno", map[string][4]uint64{"a": {}}},
		{"the host", "  a: {host: true, congestion: dctcp}\n", task{}, false, ours, map[string][4]uint64{"a": own}},
		{"the host comes last", "  a: {host: true, congestion: cubic}\n  b: {prefix: 10.9.0.0/24, congestion: dctcp}\n", task{}, false, ours, map[string][4]uint64{"a": {}, "b": own}},
		{"a child decides", "  a: {cgroup: /inner, congestion: cubic}\n  b: {prefix: 10.9.0.0/24, parent: a, congestion: dctcp}\n", task{}, false, ours, map[string][4]uint64{"a": {}, "b": own}},
		{"a group", "  a: {congestion: dctcp}\n  b: {cgroup: /inner, parent: a}\n  c: {user: 9, parent: a, congestion: cubic}\n", task{}, false, ours,
			map[string][4]uint64{"a": own, "b": own, "c": {}}},
		{"the kernel's", "  a: {cgroup: /inner, congestion: cubic}\n", task{}, true, "cubic", map[string][4]uint64{"a": own}},
		{"shadow", "  a: {cgroup: /inner, congestion: dctcp, shadow: true}\n", task{}, true, "reno", map[string][4]uint64{"a": own}},
		{"shadow before another", "  a: {cgroup: /inner, congestion: dctcp, shadow: true}\n  b: {host: true, congestion: cubic}\n", task{}, true, "cubic",
			map[string][4]uint64{"a": own, "b": own}},
		{"the application's choice", "  a: {cgroup: /inner, congestion: dctcp}\n", task{Choose: "cubic"}, false, "cubic", map[string][4]uint64{"a": {0, 0, 1, 0}}},
		{"without ECN", "  a: {cgroup: /inner, congestion: dctcp}\n", task{}, true, "reno", map[string][4]uint64{"a": {0, 1, 0, 0}}},
	} {
		want := s.plane.state(t, test.scopes)
		s.plane.apply(t, module.State{}, want)
		listener := ours
		if test.plain {
			listener = ""
		}
		test.work.Namespace, test.work.Address = s.client.Name, s.listen(t, listener).Addr().String()
		s.send(test.work)
		if got := s.answer(); got != test.want {
			t.Errorf("%s: a connection has %s, not %s", test.description, got, test.want)
		}
		if got := s.plane.counts(t, want); fmt.Sprint(got) != fmt.Sprint(test.counts) {
			t.Errorf("%s: counted %v, want %v", test.description, got, test.counts)
		}
		s.plane.apply(t, want, module.State{}) // clears the counters
	}
}

// TestAcceptedConnectionsGetIt accepts connections inside of scopes: the listener's properties
// decide about ECN.
func TestAcceptedConnectionsGetIt(t *testing.T) {
	s := newStage(t)
	for _, scopes := range []string{"cgroup: /inner", "user: 4711", "mark: 16", "netns: " + s.server.Name, "prefix: 10.9.0.1/32", "host: true"} {
		want := s.plane.state(t, "  a: {"+scopes+", congestion: dctcp}\n")
		s.plane.apply(t, module.State{}, want)
		s.send(task{Namespace: s.server.Name, Address: serverAddress + ":0", Listen: true, User: 4711, Mark: 16})
		sender, err := s.dial(s.answer(), s.plane.ourName())
		if err != nil {
			t.Fatal(err)
		}
		if got := s.answer(); got != s.plane.ourName() {
			t.Errorf("%s: a connection that was accepted has %s", scopes, got)
		}
		if got := controlName(t, sender); got != s.plane.ourName() {
			t.Errorf("%s: the peer was refused ECN, and has %s", scopes, got)
		}
		_ = sender.Close()
		s.plane.apply(t, want, module.State{})
	}
}

// TestOnlyControlsThatNeedECNAskForIt uses a namespace that does not request ECN by default, and a
// peer that supports it.
func TestOnlyControlsThatNeedECNAskForIt(t *testing.T) {
	s := newStage(t)
	if err := sysctl.Set(s.client, "net.ipv4.tcp_ecn", "2"); err != nil {
		t.Fatal(err)
	}
	for control, want := range map[string]bool{"cubic": false, "dctcp": true} {
		scopes := s.plane.state(t, "  a: {host: true, congestion: "+control+"}\n  z: {user: 1, congestion: dctcp}\n")
		s.plane.apply(t, module.State{}, scopes)
		s.send(task{Namespace: s.client.Name, Address: s.listen(t, s.plane.ourName()).Addr().String()})
		_ = s.answer()
		segments, err := s.wire.Segments()
		if err != nil {
			t.Fatal(err)
		}
		for _, segment := range segments {
			if segment.Sent && segment.SYN && segment.Capable != want {
				t.Errorf("%s: the SYN is ECN-capable: %t", control, segment.Capable)
			}
		}
		s.plane.apply(t, scopes, module.State{})
	}
}

func TestWhatThisHostLacksIsRefused(t *testing.T) {
	s := newStage(t)
	for control, want := range map[string]string{"never-made": "modprobe tcp_never-made", "dctpc": "write dctcp"} {
		err := s.plane.Ready(s.plane.state(t, "  a: {host: true, congestion: "+control+"}\n"))
		var unsupported *module.Unsupported
		if !errors.As(err, &unsupported) || unsupported.Scope != "a" || unsupported.Key != key || !strings.Contains(fault.Advice(err), want) {
			t.Errorf("%s: %v, advice %q", control, err, fault.Advice(err))
		}
	}
	elsewhere := &hostPlane{module.Host{Pins: t.TempDir(), CgroupRoot: s.group.Path}, Module{}}
	if err := elsewhere.Ready(module.State{}); fault.Of(err) != fault.Testbed {
		t.Errorf("a folder that is no bpf file system: %v", err)
	}
}

// Controls with moved pins are still active: release reports them, and apply attaches no second
// set.
func TestControlsWhosePinsWereMovedAreTold(t *testing.T) {
	testutil.Need(t, "struct_ops", probe.ProgramType(ebpf.StructOps))
	pins := filepath.Join(testutil.BPFFS(t), "cc")
	p := &hostPlane{module.Host{Pins: pins, CgroupRoot: testutil.Cgroup(t).Path}, Module{}}
	want := p.state(t, "  a: {user: 4711, congestion: reno}\n")
	if _, err := p.Apply(module.State{}, want); err != nil {
		t.Fatal(err)
	}
	stolen := pins + "-stolen"
	if err := os.Rename(pins, stolen); err != nil {
		t.Fatal(err)
	}
	_, released := p.Release()
	_, applied := p.Apply(want, want)
	for what, err := range map[string]error{"release": released, "apply": applied} {
		if err == nil || !errors.Is(err, module.ErrForeign) || !strings.Contains(err.Error(), policyProgram+" (link ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if found := testutil.ProgramsAt(t, p.host.CgroupRoot, ebpf.AttachCGroupSockOps); len(found) != 1 {
		t.Errorf("%d programs are attached, want that of before", len(found))
	}
	if err := os.Rename(stolen, pins); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Release(); err != nil {
		t.Error(err)
	}
}

// A policy that outgrows the data plane keeps its counters, and one program assigns the controls.
func TestADataPlaneGrowsWithItsPolicy(t *testing.T) {
	s := newStage(t)
	connect := func(want string) {
		t.Helper()
		s.send(task{Namespace: s.client.Name, Address: s.listen(t, "").Addr().String()})
		if got := s.answer(); got != want {
			t.Errorf("a connection has %s, not %s", got, want)
		}
	}
	first := s.plane.state(t, "  a: {cgroup: /inner, congestion: cubic}\n")
	s.plane.apply(t, module.State{}, first)
	connect("cubic")
	var users strings.Builder
	for i := range 20 {
		fmt.Fprintf(&users, "  user%d: {user: %d, congestion: reno}\n", i, 5000+i)
	}
	second := s.plane.state(t, "  a: {cgroup: /inner, congestion: cubic}\n"+users.String())
	s.plane.apply(t, first, second)
	connect("cubic")
	if got := s.plane.counts(t, second)["a"]; got != [4]uint64{2, 0, 0, 0} {
		t.Errorf("counted %v, want 2 connections", got)
	}
	testutil.Eventually(t, 10*time.Second, "one program is attached", func() bool { return testutil.CountPrograms(t, s.group.Path)[2] == 1 })
}

// After a kill during the replacement by a larger program, connections keep their control, and the
// next apply leaves one program.
func TestACrashWhileTheDataPlaneGrows(t *testing.T) {
	for _, staged := range []struct {
		name string
		all  bool
	}{{"before all pins are staged", false}, {"after all pins are staged", true}} {
		t.Run(staged.name, func(t *testing.T) {
			s := newStage(t)
			connect := func() {
				t.Helper()
				s.send(task{Namespace: s.client.Name, Address: s.listen(t, "").Addr().String()})
				if got := s.answer(); got != "reno" {
					t.Errorf("a connection has %s, not reno", got)
				}
			}
			state := s.plane.state(t, "  a: {cgroup: /inner, congestion: reno}\n")
			s.plane.apply(t, module.State{}, state)
			connect()
			smaller, err := openAssigner(s.plane.folder())
			if err != nil {
				t.Fatal(err)
			}
			larger, err := s.plane.load(64, smaller)
			if err != nil {
				t.Fatal(err)
			}
			err = s.plane.fill(larger, module.State{}, state)
			for name, one := range larger.pins() {
				if staged.all || name == linkPin {
					err = errors.Join(err, one.Pin(filepath.Join(s.plane.folder(), name+bpffs.NextSuffix)))
				}
			}
			if staged.all {
				err = errors.Join(err, os.Mkdir(filepath.Join(s.plane.folder(), bpffs.Replaced), 0o700))
			}
			if err := errors.Join(err, larger.close(), smaller.close()); err != nil {
				t.Fatal(err)
			}
			connect()
			if in, err := s.plane.InPlace(state); err != nil || in {
				t.Errorf("in place after a crash: %t, %v", in, err)
			}
			s.plane.apply(t, state, state)
			connect()
			testutil.Eventually(t, 10*time.Second, "one program is attached", func() bool { return testutil.CountPrograms(t, s.group.Path)[2] == 1 })
			if in, err := s.plane.InPlace(state); err != nil || !in {
				t.Errorf("in place after the next apply: %t, %v", in, err)
			}
		})
	}
}
