// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/core/policy"
	"weir/kernel/probe"
	"weir/kernel/testutil"
	"weir/modules/offload/conformance"
	"weir/modules/offload/plan"
	"weir/modules/offload/xdp"
)

// testLease lets a busy machine finish a verification.
const testLease = 10 * time.Second

// router is a bench with the plane that offloads it.
type router struct {
	t *testing.T
	*conformance.Bench
	plane *hostPlane
	state module.State
}

func newRouter(t *testing.T, change func(*Treatment)) *router {
	t.Helper()
	testutil.Need(t, "XDP on veth", probe.XDPNative())
	return routerOf(t, conformance.NewBench(t), change)
}

func routerOf(t *testing.T, b *conformance.Bench, change func(*Treatment)) *router {
	t.Helper()
	treatment := &Treatment{From: []string{"p0", "p1"}, Multipath: string(plan.Split), IPv4: true, IPv6: true}
	if change != nil {
		change(treatment)
	}
	r := &router{t: t, Bench: b, state: module.State{Host: []policy.Item{{Module: moduleName, Name: "offload", Treatment: treatment}}}}
	pins := filepath.Join(testutil.BPFFS(t), "offload")
	r.plane = Module{Namespace: b.Router, Lease: testLease}.Plane(module.Host{Pins: pins}).(*hostPlane)
	t.Cleanup(func() {
		if _, err := r.plane.Release(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *router) ip(line string) {
	r.t.Helper()
	if out, err := exec.Command("ip", append([]string{"-n", r.Router.Name}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
		r.t.Fatalf("ip %s: %v\n%s", line, err, out)
	}
}

func (r *router) apply() {
	r.t.Helper()
	if err := r.plane.Ready(r.state); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.plane.Apply(module.State{}, r.state); err != nil {
		r.t.Fatal(err)
	}
}

// hop returns the last byte of the next hop's link-layer address for an address in the active
// table: 0 for the CPU.
func (r *router) hop(to string) byte {
	r.t.Helper()
	pinned, err := xdp.Open(r.plane.host.Pins)
	if err != nil {
		r.t.Fatal(err)
	}
	defer pinned.Close()
	hops := pinned.Hops(netip.MustParseAddr(to))
	if len(hops) == 0 {
		return 0
	}
	return hops[0].Dst[5]
}

func (r *router) verify() Verdict {
	r.t.Helper()
	v, err := Verification{Namespace: r.Router, Pins: r.plane.host.Pins, Treatment: treatmentOf(r.state), Random: 2000, Packets: 1000, Seed: 1}.Run()
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func (r *router) holds() {
	r.t.Helper()
	v := r.verify()
	for _, d := range v.Differences {
		r.t.Error(d)
	}
	for _, p := range v.Wrong {
		r.t.Error(p)
	}
	if v.Forwarded == 0 || v.Sent == 0 {
		r.t.Errorf("nothing was forwarded: %+v", v)
	}
}

// follow follows the kernel's routing until the end of the test.
func (r *router) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	before, _ := filepath.Glob(filepath.Join(r.plane.host.Pins, "table-*"))
	go func() { ended <- r.plane.Run(ctx, r.state) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	testutil.Eventually(r.t, 2*time.Minute, "the follower's own table", func() bool {
		now, _ := filepath.Glob(filepath.Join(r.plane.host.Pins, "table-*"))
		return len(now) == 1 && (len(before) == 0 || now[0] != before[0])
	})
}

func (r *router) becomes(to string, hop byte) {
	r.t.Helper()
	testutil.Eventually(r.t, 20*time.Second, "the change of "+to, func() bool { return r.hop(to) == hop })
}

// A table is installed, replaced, verified, reported and removed without a trace.
func TestTheLifeOfAnOffload(t *testing.T) {
	r := newRouter(t, nil)
	if in, err := r.plane.InPlace(r.state); in || err != nil {
		t.Fatalf("in place before it was applied: %t, %v", in, err)
	}
	for range 3 { // as after a crash
		r.apply()
		r.holds()
		if in, err := r.plane.InPlace(r.state); !in || err != nil {
			t.Fatalf("not in place: %v", err)
		}
	}
	entries, err := os.ReadDir(r.plane.host.Pins)
	if err != nil || len(entries) != 3 {
		t.Errorf("pins %v, %v; want two ports and one table", entries, err)
	}
	report, err := r.plane.Report(r.state)
	if err != nil || len(report.Host) != len(fields()) || report.Host[0].Count != 0 { // test runs are not counted
		t.Errorf("report %+v, %v", report, err)
	}
	if released, err := r.plane.Release(); !released || err != nil {
		t.Errorf("release: %t, %v", released, err)
	}
	if _, err := os.Stat(r.plane.host.Pins); !os.IsNotExist(err) {
		t.Errorf("the pins' folder is left: %v", err)
	}
	if released, err := r.plane.Release(); released || err != nil {
		t.Errorf("released twice: %t, %v", released, err)
	}
}

// Remains of a crash are replaced.
func TestACrashInTheMiddleIsNoObstacle(t *testing.T) {
	r := newRouter(t, nil)
	r.apply()
	stale := filepath.Join(r.plane.host.Pins, "table-0")
	if err := os.Mkdir(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.plane.host.Pins, "port-"+strings.TrimSpace(index(t, r, "p0")))); err != nil {
		t.Fatal(err)
	}
	if in, err := r.plane.InPlace(r.state); in && err == nil {
		t.Error("in place without one of its ports")
	}
	r.apply()
	r.holds()
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the half-made table is left: %v", err)
	}
}

func index(t *testing.T, r *router, dev string) string {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", r.Router.Name, "cat", "/sys/class/net/"+dev+"/ifindex").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// A follower applies changes of routes, neighbours, links, addresses and rules.
func TestTheKernelsRoutingIsFollowed(t *testing.T) {
	testutil.NeedSpeed(t) // a table is valid for a second of real time
	r := newRouter(t, nil)
	r.follow()
	r.becomes("100.64.0.9", 2)
	r.ip("route replace 100.64.0.0/16 via 10.2.0.3")
	r.becomes("100.64.0.9", 3)
	r.ip("route add 100.64.0.8/29 via 10.2.0.2")
	r.becomes("100.64.0.9", 2)
	r.ip("route del 100.64.0.8/29")
	r.becomes("100.64.0.9", 3)
	r.ip("route add 0.0.0.0/0 via 10.2.0.2")
	r.becomes("203.0.113.5", 2)
	r.ip("-6 route replace 2001:db8:6400::/40 via 2001:db8:2::3")
	r.becomes("2001:db8:6400::9", 3)
	r.ip("neigh replace 10.2.0.3 lladdr 02:aa:00:00:02:33 dev p1 nud permanent")
	r.becomes("100.64.0.9", 0x33)
	r.becomes("10.2.0.3", 0x33)
	r.ip("neigh del 10.2.0.3 dev p1")
	r.becomes("100.64.0.9", 0)
	r.becomes("10.2.0.3", 0)
	r.ip("neigh replace 10.2.0.3 lladdr 02:aa:00:00:02:03 dev p1 nud permanent")
	r.becomes("100.64.0.9", 3)
	r.ip("addr add 100.64.0.9/32 dev p0")
	r.becomes("100.64.0.9", 0)
	r.ip("addr del 100.64.0.9/32 dev p0")
	r.becomes("100.64.0.9", 3)
	r.holds()
	r.ip("link set dev p1 down")
	r.becomes("100.64.0.9", 0)
	r.becomes("203.0.113.5", 0)
	r.ip("link set dev p1 up")
	for _, line := range []string{"route add 100.64.0.0/16 via 10.2.0.2", "neigh replace 10.2.0.2 lladdr 02:aa:00:00:02:02 dev p1 nud permanent"} {
		r.ip(line)
	}
	r.becomes("100.64.0.9", 2)
	r.holds()
}

// A table without a follower expires.
func TestWithoutAFollowerAllPacketsAreTheKernels(t *testing.T) {
	r := newRouter(t, nil)
	r.plane.lease = Lease
	r.apply()
	pinned, err := xdp.Open(r.plane.host.Pins)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	if lease, err := pinned.Lease(); err != nil || lease <= 0 || lease > Lease {
		t.Fatalf("lease %s, %v", lease, err)
	}
	testutil.Eventually(t, 3*Lease, "the end of the lease", func() bool { lease, err := pinned.Lease(); return err == nil && lease < 0 })
	if v := r.verify(); v.Holds() || !v.Expired || len(v.Wrong)+len(v.Differences) > 0 {
		t.Errorf("expired lease: %+v", v)
	}
	before, err := pinned.Counts()
	if err != nil {
		t.Fatal(err)
	}
	if hops := r.Stream(t, []netip.Addr{netip.MustParseAddr("100.64.0.9")}, 1); hops[2] == 0 {
		t.Errorf("the kernel does not forward: %v", hops)
	}
	after, err := pinned.Counts()
	if err != nil || after.Left[1].Packets == before.Left[1].Packets || after.Forwarded != before.Forwarded {
		t.Errorf("counts %+v, then %+v, %v", before, after, err)
	}
}

// Verification finds a table that differs from the kernel.
func TestVerifyingFindsWhatIsWrong(t *testing.T) {
	testutil.NeedSpeed(t) // a table is valid for a second of real time
	r := newRouter(t, nil)
	r.apply()
	r.ip("route add 100.64.3.0/24 via 10.1.0.2")
	v := r.verify()
	if v.Holds() || len(v.Differences) == 0 || !v.Differences[0].Harmful() {
		t.Fatalf("a route that the table does not have is not found: %+v", v)
	}
	for _, d := range v.Differences {
		if !netip.MustParsePrefix("100.64.3.0/24").Contains(d.Address) {
			t.Error(d)
		}
	}
}
