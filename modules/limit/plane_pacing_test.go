// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/modules/limit/shape"
)

const unpaced = 1<<32 - 1

// shapedHost is a host with talkers and a device eth0 to shape.
type shapedHost struct {
	t              *testing.T
	host           module.Host
	client, server *netns.Namespace
	at             *netns.Namespace // where the policy is active: the client's
	echo           string
	plane          module.Plane
	have           module.State
}

func newShapedHost(t *testing.T) *shapedHost {
	t.Helper()
	testutil.NeedRoot(t)
	_, err := shape.Available(Egress)
	testutil.Need(t, "delay", err)
	d := &shapedHost{t: t, host: coreHost(t)}
	var address netip.Addr
	d.client, d.server, address = path(t)
	d.at = d.client
	d.echo = echo(t, d.server, address)
	d.host.Files, d.host.Devices = t.TempDir(), filepath.Join(filepath.Dir(d.host.Pins), "devices")
	d.host.Namespaces = func(each func(*netns.Namespace) error) error { return each(d.client) }
	d.plane = Module{}.Plane(d.host)
	t.Cleanup(func() { d.do(func() error { _, err := d.plane.Release(); return err }) })
	return d
}

func (d *shapedHost) do(f func() error) {
	d.t.Helper()
	if err := d.at.Do(f); err != nil {
		d.t.Fatal(err)
	}
}

func (d *shapedHost) apply(scopes string) {
	d.t.Helper()
	d.do(func() error {
		want := bound(d.t, d.host, map[string]int{"a": 0, "b": 1}, scopes)
		_, err := d.plane.Apply(d.have, want)
		d.have = want
		return err
	})
}

// talk opens a connection to the echo server with its own pace, 0 for none; each call is an
// exchange and returns the pace of the socket in byte/s.
func (d *shapedHost) talk(own int) (exchange func() uint32) {
	d.t.Helper()
	process, answers := startTalker(d.t, cgroup.Cgroup{Path: d.host.CgroupRoot}, task{Namespace: d.client.Name, Address: d.echo, Pace: own})
	answers.Scan()
	return func() uint32 { return exchanged(d.t, process, answers) }
}

func exchanged(t *testing.T, process *child.Process, answers *bufio.Scanner) (rate uint32) {
	t.Helper()
	rate, _ = afterExchange(t, process, answers)
	return rate
}

// afterExchange returns the pace of the socket (byte/s) and its receive window (bytes) after
// another exchange.
func afterExchange(t *testing.T, process *child.Process, answers *bufio.Scanner) (rate uint32, window int) {
	t.Helper()
	if _, err := fmt.Fprintln(process.In); err != nil || !answers.Scan() {
		t.Fatalf("the talker has ended: %v", err)
	}
	if _, err := fmt.Sscan(answers.Text(), &rate, &window); err != nil {
		t.Fatal(err)
	}
	return rate, window
}

// A sender is paced at 1.25 times the rate at most, and at its own pace if that is lower. Its own
// pace returns when its packets use another device, when another device is shaped instead, and
// after the end.
func TestShapingPacesSenders(t *testing.T) {
	d := newShapedHost(t)
	const most, own = 10_000_000/8*5/4 + 1, 500_000
	d.apply("  a: {interface: eth0, egress: {rate: 10Mbit, mode: shape}}\n")
	exchange, slow := d.talk(0), d.talk(own)
	becomes := func(when string, exchange func() uint32, is func(uint32) bool) {
		t.Helper()
		testutil.Eventually(t, time.Minute, when, func() bool { return is(exchange()) })
	}
	limited, free := func(rate uint32) bool { return rate <= most }, func(rate uint32) bool { return rate == unpaced }
	if got := exchange(); !limited(got) {
		testutil.Need(t, "sk_storage-updates", fmt.Errorf("paced at %d octet/s", got))
	}
	if got := slow(); got > own {
		t.Errorf("a sender with a pace of %d octet/s has %d", own, got)
	}
	d.second()
	d.route("add")
	becomes("its own pace by another device", exchange, free)
	if got := slow(); got != own {
		t.Errorf("a sender with a pace of %d octet/s has %d by another device", own, got)
	}
	d.route("del")
	becomes("the limit's pace again", exchange, limited)
	d.apply("  b: {interface: eth1, egress: {rate: 10Mbit, mode: shape}}\n")
	becomes("its own pace where another device is limited", exchange, free)
	d.apply("  a: {interface: eth0, egress: {rate: 10Mbit, mode: shape}}\n")
	becomes("the limit's pace", exchange, limited)
	d.do(func() error { _, err := d.plane.Release(); return err })
	if got := exchange(); got != unpaced {
		t.Errorf("the socket is paced at %d octet/s after the end", got)
	}
}

// Senders to local sockets behind a shaped interface are throttled by the advertised window; the
// window is restored at the end.
func TestShapingThrottlesSendersByWindow(t *testing.T) {
	d := newShapedHost(t)
	_, err := shape.Available(Ingress)
	testutil.Need(t, "delay", err)
	talk := func() (window func() int) {
		process, answers := startTalker(t, cgroup.Cgroup{Path: d.host.CgroupRoot}, task{Namespace: d.client.Name, Address: d.echo})
		answers.Scan()
		return func() int { _, window := afterExchange(t, process, answers); return window }
	}
	own := talk()()
	d.apply("  a: {interface: eth0, ingress: {rate: 100kbit, mode: shape}}\n")
	window := talk()
	held := window()
	d.do(func() error {
		c, there, err := d.plane.(*plane).shape.Counters(shapedState(d.have).Shapers[0])
		if err == nil && there && c.Windows == 0 {
			testutil.Need(t, "sk_storage-updates", errors.New("no window was set"))
		}
		return err
	})
	if held >= own {
		t.Errorf("the window is of %d octets, that of others of %d", held, own)
	}
	d.do(func() error { _, err := d.plane.Release(); return err })
	if after := window(); after <= held && probe.OpenSockets() == nil {
		t.Errorf("the window is of %d octets after the end, as before", after)
	}
}

// A network namespace is shaped from outside, also by its group, and its senders are paced.
func TestShapingOfANamespace(t *testing.T) {
	d := newShapedHost(t)
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	d.at = d.server
	const scopes = "  b: {egress: {rate: 10Mbit, mode: shape}}\n  a: {netns: %s, parent: b, ingress: {rate: 5Mbit, mode: shape}}\n"
	d.apply(fmt.Sprintf(scopes, d.client.Path()))
	exchange := d.talk(0)
	got := exchange()
	for _, l := range shapedState(d.have).Shapers {
		c, there, err := d.plane.(*plane).shape.Counters(l)
		if err != nil || !there || c.Packets < 2 {
			t.Errorf("%s of scope %d has been charged for %d packets (%v)", l.Direction, l.Index, c.Packets, err)
		}
	}
	if got == unpaced {
		testutil.Need(t, "sk_storage-updates", errors.New("not paced"))
	}
}

// With shaped and policed scopes, only the policer paces senders.
func TestShapingPacesNoSocketBesidePolicing(t *testing.T) {
	d := newShapedHost(t)
	exchange := d.talk(0)
	const device = "  a: {interface: eth0, egress: {rate: 10Mbit, mode: shape}}\n"
	d.apply(device + "  b: {user: 4711, egress: 10Mbit}\n")
	if got := exchange(); got != unpaced {
		t.Errorf("paced at %d octet/s beside a policer", got)
	}
	d.apply(device)
	testutil.Need(t, "sk_storage-updates", func() error {
		if got := d.talk(0)(); got == unpaced {
			return errors.New("not paced after its end")
		}
		return nil
	}())
}

// A policed interface limits connections with a route that moves to it, and frees those with a
// route that leaves it.
func TestPolicedConnectionsFollowTheirRoute(t *testing.T) {
	d := newShapedHost(t)
	d.second()
	d.apply("  a: {interface: eth1, egress: {rate: 10Mbit, mode: police}}\n")
	charged := func() (n uint64) {
		d.do(func() error {
			report, err := d.plane.Report(d.have)
			for i, c := range (Module{}).Columns().Rows {
				if err == nil && c.Name == "packets" {
					n = report.Rows[0].Values[i].Count
				}
			}
			return err
		})
		return n
	}
	exchange := d.talk(0)
	if got := exchange(); got != unpaced || charged() != 0 {
		t.Errorf("by another device the connection is paced at %d, %d packets charged", got, charged())
	}
	d.route("add")
	testutil.Eventually(t, time.Minute, "the connection is charged", func() bool { exchange(); return charged() > 0 })
	testutil.Eventually(t, time.Minute, "the connection is paced", func() bool { return exchange() != unpaced })
	d.route("del")
	testutil.Eventually(t, time.Minute, "its own pace", func() bool { return exchange() == unpaced })
	before := charged()
	exchange()
	if got := charged(); got != before {
		t.Errorf("%d packets by another device are charged", got-before)
	}
}

// second adds another pair of devices.
func (d *shapedHost) second() {
	d.t.Helper()
	for i, ns := range []*netns.Namespace{d.client, d.server} {
		conn, err := rtnl.Open(ns)
		if err != nil {
			d.t.Fatal(err)
		}
		defer conn.Close()
		if i == 0 {
			err = conn.AddVeth("eth1", d.server, "eth1", 0)
		}
		address := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 1, byte(i + 1)}), 24)
		if err := errors.Join(err, conn.AddAddress("eth1", address), conn.SetUp("eth1")); err != nil {
			d.t.Fatal(err)
		}
	}
}

// route adds or removes a route to the echo server over the second pair.
func (d *shapedHost) route(do string) {
	d.t.Helper()
	tool := testutil.Command(d.t, "ip")
	host, _, _ := strings.Cut(d.echo, ":")
	d.do(func() error {
		if out, err := exec.Command(tool, "route", do, host+"/32", "via", "10.9.1.2", "dev", "eth1").CombinedOutput(); err != nil {
			return fmt.Errorf("ip route %s: %w: %s", do, err, out)
		}
		return nil
	})
}
