// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	hook "github.com/cilium/ebpf/link"

	"weir/core/engine"
	"weir/core/prove/station"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/sysctl"
	"weir/kernel/testutil"
)

// device returns a scope of an interface, in both directions.
func device(name string) string {
	return name + ": {interface: " + name + ", egress: {rate: 20Mbit, mode: police}, ingress: {rate: 20Mbit, mode: police}}"
}

// uplink creates a veth pair from this namespace, the host of the test, to another one.
func uplink(t *testing.T, here *rtnl.Conn) {
	t.Helper()
	world := testutil.Namespace(t, "world")
	there, err := rtnl.Open(world)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if err := errors.Join(here.AddVeth("uplink", world, "street", 0), here.SetUp("uplink"), there.SetUp("street")); err != nil {
		t.Fatal(err)
	}
}

// onHost runs f in a namespace that stands for the host's. Afterwards the namespace must be
// unchanged except for f's own changes.
func onHost(t *testing.T, f func(here *rtnl.Conn)) {
	t.Helper()
	if err := inNamespace(t, func() error {
		here, err := rtnl.Open(nil)
		if err != nil {
			return err
		}
		defer here.Close()
		f(here)
		neighbors, err := here.Neighbors()
		if len(neighbors) > 0 {
			t.Errorf("neighbours are left: %v", neighbors)
		}
		for _, p := range []string{"198.18.0.0/15", "2001:2::/48"} {
			left, err := here.Overlap(netip.MustParsePrefix(p))
			if err != nil || left != "" {
				t.Errorf("left in %s: %s, %v", p, left, err)
			}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// proved applies the scopes and runs prove in this namespace.
func proved(t *testing.T, e *engine.Engine, scopes ...string) *Result {
	t.Helper()
	apply(t, e, scopes...)
	result, err := Run(t.Context(), Options{Engine: e, Duration: 250 * time.Millisecond, Repetitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// chargedOnce checks that every path was charged once for the received bytes, and returns the
// number of measured paths.
func chargedOnce(t *testing.T, r *Result) (paths int) {
	t.Helper()
	for _, row := range r.Rows {
		// The result names a machine that is too busy for the rate, or for a transfer in this time.
		busy := strings.Contains(row.Reason, "the path carries") || strings.Contains(row.Reason, "no transfer began")
		if row.Verdict == CannotSay && busy {
			t.Logf("%s %s: %s", row.Path, row.Direction, row.Reason)
			continue
		}
		if len(row.Samples) != 1 {
			t.Errorf("%s %s: %d samples, %s: %s", row.Path, row.Direction, len(row.Samples), row.Verdict, row.Reason)
			continue
		}
		if q := row.Samples[0].Quotient; q < 0.9 || q > 1.2 {
			t.Errorf("%s %s: charged %.2f times", row.Path, row.Direction, q)
		}
		paths++
	}
	return paths
}

// Flows pass the interface's hooks in both directions, and never its link.
func TestInterfacesAreReachedByADetour(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "tcx", probe.DeviceHook())
	e := setup(t)
	testutil.Snapshot(t)
	onHost(t, func(here *rtnl.Conn) {
		uplink(t, here)
		before, err := here.Traffic("uplink")
		if err != nil {
			t.Fatal(err)
		}
		result := proved(t, e, device("uplink"))
		if want := 12; len(result.Rows) != want && IPv6() == nil {
			t.Errorf("%d rows, want %d: TCP and UDP of both families and directions, QUIC-like and short flows of one", len(result.Rows), want)
		}
		chargedOnce(t, result)
		after, err := here.Traffic("uplink")
		if err != nil {
			t.Fatal(err)
		}
		// The host's own neighbour discovery may pass.
		const most = 20_000
		if sent := after.SentOctets - before.SentOctets; sent > most {
			t.Errorf("%d octets went out to the link", sent)
		}
		for check, want := range map[string][]State{
			"super-packets":             {Covered, Unknown}, // a flow may have no super-packets
			"loopback":                  {NotApplicable},
			"tunnel":                    {NotApplicable},
			"sockets opened before":     {NotApplicable},
			"another network namespace": {NotApplicable},
			"IPv6":                      {Covered, NotApplicable},
		} {
			got := find(t, result, "uplink", check)
			if !slices.Contains(want, got.State) {
				t.Errorf("%s: %s because %s; want %s", check, got.State, got.Why, want)
			}
		}
		link, err := here.Device("uplink")
		if err != nil {
			t.Fatal(err)
		}
		programs, err := hook.QueryPrograms(hook.QueryOptions{Target: link.Index, Attach: ebpf.AttachTCXEgress})
		if err != nil || len(programs.Programs) > 0 {
			t.Errorf("programs are left on the interface: %v, %v", programs, err)
		}
	})
}

// On a device without a link layer, packets begin with IP.
func TestADeviceWithoutLinkLayerIsReached(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "tcx", probe.DeviceHook())
	e := setup(t)
	onHost(t, func(here *rtnl.Conn) {
		err := here.AddTunnel(rtnl.IPIP, "tunnel", netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"))
		testutil.Need(t, "ipip", err)
		if err := here.SetUp("tunnel"); err != nil {
			t.Fatal(err)
		}
		if paths := chargedOnce(t, proved(t, e, device("tunnel"))); paths == 0 {
			t.Error("no path was measured")
		}
	})
}

func TestWhatKeepsFlowsFromAnInterfaceIsSaid(t *testing.T) {
	e := setup(t)
	ip := testutil.Command(t, "ip")
	onHost(t, func(here *rtnl.Conn) {
		uplink(t, here)
		for _, args := range []string{"link set lo up", "link add bridge type bridge", "link add part type veth peer name whole",
			"link set part up master bridge", "address add 192.0.2.1/24 dev uplink"} {
			command(t, ip, strings.Fields(args)...)
		}
		apply(t, e, device("uplink"), device("lo"), device("part"), device("whole"))
		for _, test := range []struct {
			scope, peer, why string
		}{
			{"uplink", "", ""},
			{"lo", "", "weir prove --listen 127.0.0.1:5201"},
			{"part", "", "name bridge in the scope instead"},
			{"whole", "", "ip link set whole up"},
			{"uplink", "192.0.2.9:5201", ""},
			{"uplink", "127.0.0.1:5201", "not reached over uplink but over lo"},
			{"uplink", "203.0.113.1:5201", "no route leads to the peer (find route to 203.0.113.1"},
			{"lo", "127.0.0.1:5201", "loopback: true"},
		} {
			o := Options{Engine: e, Scope: test.scope, Duration: time.Second, Repetitions: 1}
			if test.peer != "" {
				at := netip.MustParseAddrPort(test.peer)
				o.Peer = &station.Peer{Control: at, Target: at}
			}
			tests, err := o.Plan(errors.New("left out"))
			if err != nil || len(tests) != 8 {
				t.Fatalf("%s to %q: %d tests, %v", test.scope, test.peer, len(tests), err)
			}
			for _, got := range tests {
				if (got.Skip == CannotSay) != (test.why != "") || !strings.Contains(got.Reason, test.why) {
					t.Errorf("%s to %q: %q because %q, want %q", test.scope, test.peer, got.Skip, got.Reason, test.why)
				}
			}
		}
	})
}

// An incomplete detour delivers no flow: a measurement over it would look like a leak.
func TestADetourThatFailedIsNotUsed(t *testing.T) {
	testutil.NeedRoot(t)
	testutil.Need(t, "tcx", probe.TCX())
	testutil.Need(t, "IPv6", IPv6())
	e := setup(t)
	onHost(t, func(here *rtnl.Conn) {
		uplink(t, here)
		bed, err := newTestbed(t.Context(), e, true)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := bed.close(); err != nil {
				t.Error(err)
			}
		}()
		// New devices have no IPv6 address: the pair is created and cannot be completed.
		const newDevices = "net/ipv6/conf/default/disable_ipv6"
		for range 2 {
			if err := sysctl.Set(nil, newDevices, "1"); err != nil {
				t.Fatal(err)
			}
			if d, err := bed.through("uplink"); err == nil {
				t.Fatalf("half a detour: %+v", d)
			}
			devices, err := here.Devices()
			if err != nil || slices.ContainsFunc(devices, func(d rtnl.Device) bool { return strings.HasPrefix(d.Name, bed.device+"d") }) {
				t.Errorf("its veth pair is left: %+v, %v", devices, err)
			}
		}
		if err := sysctl.Set(nil, newDevices, "0"); err != nil {
			t.Fatal(err)
		}
		whole, err := bed.through("uplink")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := bed.through("uplink"); err != nil || again != whole {
			t.Errorf("a second detour: %+v, %v", again, err)
		}
	})
}

// Sweep removes the remains of a killed run on an interface, and keeps those of a running one.
func TestSweepRemovesDetoursOfTheDead(t *testing.T) {
	testutil.NeedRoot(t)
	t.Setenv("WEIR_RUN_DIR", t.TempDir())
	onHost(t, func(here *rtnl.Conn) {
		uplink(t, here)
		// A process id above the kernel's maximum belongs to no process.
		for number, pid := range []int{4194999, os.Getpid()} {
			for i, a := range addresses(netip.AddrFrom4([4]byte{198, 18, byte(number), 0}), uint16(number)).there {
				if i == 1 && IPv6() != nil {
					continue
				}
				if err := errors.Join(here.AddNeighbor("uplink", a.Addr(), owned(pid)),
					here.AddRoute(rtnl.Route{To: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), Device: "uplink", Protocol: routeProtocol,
						Metric: uint32(pid)})); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := Sweep(t.TempDir()); err != nil {
			t.Fatal(err)
		}
		routes, err := here.RoutesOf(routeProtocol)
		if err != nil {
			t.Fatal(err)
		}
		neighbors, err := here.Neighbors()
		if err != nil {
			t.Fatal(err)
		}
		if len(routes) == 0 || len(routes) != len(neighbors) {
			t.Fatalf("the living one's: %v, %v", routes, neighbors)
		}
		for i, r := range routes {
			if int(r.Metric) != os.Getpid() || neighbors[i].Address != r.To.Addr() {
				t.Errorf("left: %v, %v", r, neighbors[i])
			}
			if err := errors.Join(here.RemoveRoute(routeTo("uplink", r.To.Addr())), here.RemoveNeighbor("uplink", r.To.Addr())); err != nil {
				t.Error(err)
			}
		}
	})
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}
