// SPDX-License-Identifier: Apache-2.0

package borders

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/core/module"
	"weir/kernel/device"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

const le, cs1, ef, af21 = byte(1) << 2, byte(8) << 2, byte(46) << 2, byte(18) << 2

// A campus uses LE for less than best effort, the network beyond uses CS1. All packets from the
// dormitory become LE at the ingress of the campus.
func TestTwoNetworksMeet(t *testing.T) {
	s := newStage(t)
	have := s.apply(t, module.State{}, "  eth0: {translate: {lbe: CS1}}\n"+
		"  eth1: {from: {10.20.0.0/24: lbe, '2001:db8:20::/64': lbe}}\n")
	beyond, inside := taker(t, s.beyond), taker(t, s.inside)
	rightNop := []byte{1, 1, 1, 0} // RFC 791: no operation, end of list
	for _, test := range []struct {
		description string
		out         bool
		to          string
		tos         byte
		octets      int
		options     []byte
		packets     int
		want        byte
	}{
		{"leaves marked and translated", true, beyond4, 0, 10, nil, 1, cs1},
		{"over IPv6", true, beyond6, 0, 10, nil, 1, cs1},
		{"whatever it says, with ECN", true, beyond4, ef | 2, 10, nil, 1, cs1 | 2},
		{"over IPv6 with ECN", true, beyond6, ef | 1, 10, nil, 1, cs1 | 1},
		{"in fragments", true, beyond4, 0, 4000, nil, 3, cs1},
		{"in fragments of IPv6", true, beyond6, 0, 4000, nil, 3, cs1},
		{"with options", true, beyond4, 0, 10, rightNop, 1, cs1},
		{"comes in translated", false, inside4, cs1 | 3, 10, nil, 1, le | 3},
		{"comes in translated by IPv6", false, inside6, cs1, 10, nil, 1, le},
		{"comes in in fragments", false, inside4, cs1, 4000, nil, 3, le},
		{"any other comes in as it is", false, inside4, af21, 10, nil, 1, af21},
		{"any other comes in as it is by IPv6", false, inside6, ef, 10, nil, 1, ef},
	} {
		t.Run(test.description, func(t *testing.T) {
			ns, fd := s.beyond, inside
			if test.out {
				ns, fd = s.inside, beyond
			}
			send(t, ns, test.to, test.tos, test.octets, test.options)
			if got := arrived(t, fd, test.packets); !bytes.Equal(got, bytes.Repeat([]byte{test.want}, test.packets)) {
				t.Errorf("arrived with types of service %#x, want %#x", got, test.want)
			}
		})
	}
	have.Host = have.Host[:1] // both rows have the same parts
	got := s.counts(t, have)
	if in, out := got["ingress"], got["egress"]; in[2] != 5 || in[1] != 0 || out[2] < 11 {
		t.Errorf("counted packets, marked, translated: %v; want 5 translated in, and 11 out", got)
	}
}

// Shadow mode counts without writing.
func TestShadowWritesNothing(t *testing.T) {
	s := newStage(t)
	have := s.apply(t, module.State{}, "  eth1: {from: {10.20.0.0/24: lbe}, translate: {premium: AF41}, shadow: true}\n")
	fd, inside := taker(t, s.beyond), taker(t, s.inside)
	send(t, s.inside, beyond4, af21, 10, nil)
	send(t, s.beyond, inside4, ef, 10, nil)
	if got := append(arrived(t, fd, 1), arrived(t, inside, 1)...); !bytes.Equal(got, []byte{af21, ef}) {
		t.Errorf("arrived with types of service %#x", got)
	}
	if got := s.counts(t, have); got["ingress"][1] == 0 || got["egress"][2] == 0 {
		t.Errorf("counted packets, marked, translated: %v", got)
	}
}

// A changed border keeps its place and its counters; a removed one leaves nothing behind.
func TestBordersChangeAndGo(t *testing.T) {
	s := newStage(t)
	fd := taker(t, s.beyond)
	one := s.apply(t, module.State{}, "  eth1: {from: {10.20.0.0/24: lbe}}\n")
	send(t, s.inside, beyond4, 0, 10, nil)
	two := s.apply(t, one, "  eth1: {from: {10.20.0.0/24: lbe, 10.20.0.2: premium}, translate: {AF11: CS1}}\n")
	send(t, s.inside, beyond4, 0, 10, nil)
	if got := arrived(t, fd, 2); !bytes.Equal(got, []byte{le, ef}) {
		t.Errorf("arrived with types of service %#x, want %#x", got, []byte{le, ef})
	}
	if got := s.counts(t, two)["ingress"]; got[1] != 2 {
		t.Errorf("%d were marked, want those of both", got[1])
	}
	s.apply(t, two, "  eth0: {translate: {lbe: CS1}}\n")
	send(t, s.inside, beyond4, 0, 10, nil)
	if released, err := s.release(); err != nil || !released {
		t.Fatalf("released: %t, %v", released, err)
	}
	send(t, s.inside, beyond4, le, 10, nil)
	if got := arrived(t, fd, 2); !bytes.Equal(got, []byte{0, le}) {
		t.Errorf("arrived with types of service %#x, want %#x", got, []byte{0, le})
	}
	for _, dev := range []string{"eth0", "eth1"} {
		if found, err := device.Attached(s.router, dev, moduleName, s.plane.host.Devices); err != nil || len(found) > 0 {
			t.Errorf("%d programs are at %s, %v", len(found), dev, err)
		}
	}
	if released, err := s.release(); err != nil || released || s.inPlace(t, module.State{}) {
		t.Errorf("released again: %t, %v", released, err)
	}
}

// A border of a missing device waits for it.
func TestABorderWaitsForItsDevice(t *testing.T) {
	s := newStage(t)
	const text = "  eth7: {from: {10.20.0.0/24: lbe}}\n"
	want := s.state(t, text)
	must(t, s.router.Do(func() error {
		notes, err := s.plane.Apply(module.State{}, want)
		if len(notes) != 1 || !strings.Contains(notes[0], "borders.eth7: there is no such device") {
			t.Errorf("notes: %q", notes)
		}
		return err
	}))
	if !s.inPlace(t, want) {
		t.Error("there is nothing to do, and it is not in place")
	}
	ip(t, "-n", s.router.Name, "link", "add", "eth7", "type", "veth", "peer", "eth8")
	if s.inPlace(t, want) {
		t.Error("the device is there without programs, and in place")
	}
	s.apply(t, want, text)
	ip(t, "-n", s.router.Name, "link", "delete", "eth7")
	s.apply(t, want, text)
}

// VLAN tags in the packet or in its metadata.
func TestTagsAreLookedBehind(t *testing.T) {
	s := newStage(t)
	for ns, dev := range map[string]string{s.router.Name: "eth1", s.inside.Name: "eth0"} {
		added := exec.Command("ip", "-n", ns, "link", "add", "link", dev, "name", "outer", "type", "vlan", "proto", "802.1ad", "id", "5").Run()
		testutil.Need(t, "vlan devices", added)
		ip(t, "-n", ns, "link", "add", "link", "outer", "name", "inner", "type", "vlan", "id", "7")
		ip(t, "-n", ns, "link", "set", "outer", "up")
		ip(t, "-n", ns, "link", "set", "inner", "up")
	}
	ip(t, "-n", s.router.Name, "address", "add", "10.77.0.1/24", "dev", "inner")
	ip(t, "-n", s.inside.Name, "address", "add", "10.77.0.2/24", "dev", "inner")
	ip(t, "-n", s.inside.Name, "route", "replace", "default", "via", "10.77.0.1")
	ip(t, "-n", s.beyond.Name, "route", "add", "10.77.0.0/24", "via", "192.0.2.1")
	s.apply(t, module.State{}, "  eth1: {from: {10.77.0.2: lbe}, translate: {premium: AF41}}\n")
	fd := taker(t, s.beyond)
	send(t, s.inside, beyond4, 0, 10, nil)
	if got := arrived(t, fd, 1); !bytes.Equal(got, []byte{le}) {
		t.Errorf("behind two tags it came in as %#x, want %#x", got, le)
	}
	inside := taker(t, s.inside)
	send(t, s.beyond, "10.77.0.2", ef, 10, nil)
	if got := arrived(t, inside, 1); !bytes.Equal(got, []byte{34 << 2}) {
		t.Errorf("behind two tags it left as %#x, want %#x", got, 34<<2)
	}
}

// Devices without a link-layer header start with the IP header.
func TestDevicesWithoutALinkLayerAreBorders(t *testing.T) {
	s := newStage(t)
	for ns, ends := range map[*netns.Namespace][3]string{s.router: {"10.20.0.1", inside4, "10.88.0.1/24"}, s.inside: {inside4, "10.20.0.1", "10.88.0.2/24"}} {
		added := ns.Do(func() error {
			return exec.Command("ip", "link", "add", "upper", "type", "gre", "local", ends[0], "remote", ends[1]).Run()
		})
		testutil.Need(t, "gre devices", added)
		ip(t, "-n", ns.Name, "link", "set", "upper", "up")
		ip(t, "-n", ns.Name, "address", "add", ends[2], "dev", "upper")
	}
	ip(t, "-n", s.inside.Name, "route", "replace", "default", "via", "10.88.0.1")
	ip(t, "-n", s.beyond.Name, "route", "add", "10.88.0.0/24", "via", "192.0.2.1")
	have := s.apply(t, module.State{}, "  upper: {from: {10.88.0.2: lbe}, translate: {premium: AF41}}\n")
	fd := taker(t, s.beyond)
	send(t, s.inside, beyond4, 0, 10, nil)
	if got := arrived(t, fd, 1); !bytes.Equal(got, []byte{le}) {
		t.Errorf("out of a tunnel it came in as %#x, want %#x", got, le)
	}
	send(t, s.beyond, "10.88.0.2", ef, 10, nil)
	testutil.Eventually(t, 20*time.Second, "a packet into the tunnel to be translated", func() bool { return s.counts(t, have)["egress"][2] == 1 })
}

func TestMistakesAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"  eth0: {from: {10.20.0.1/16: lbe}}\n":                          "has bits behind its length",
		"  eth0: {from: {dormitory: lbe}}\n":                             `"dormitory" is neither a prefix nor an address`,
		"  eth0: {from: {10.0.0.0/8: lbee}}\n":                           "write lbe if that is meant",
		"  eth0: {translate: {lbe: LE}}\n":                               "is the same there",
		"  eth0: {translate: {lbe: CS1, AF11: CS1}}\n":                   "of two classes one side would know one DSCP",
		"  eth0: {from: {10.0.0.1: lbe, 10.0.0.1/32: ef}}":               "is there twice",
		"  eth0: {from: {\"fe80::1%eth0\": lbe}}\n":                      "is neither a prefix nor an address",
		"  eth0: {from: {10.0.0.0/8: lbe, \"::ffff:10.0.0.0/104\": ef}}": "is there twice",
		"  eth0: {from: {\"::ffff:10.0.0.1/104\": lbe}}\n":               "has bits behind its length",
		"  eth0: {}\n":                     "it has nothing to do",
		"  lo: {translate: {lbe: CS1}}\n":  "no network is behind loopback",
		"  a/b: {translate: {lbe: CS1}}\n": "is not a device name",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A treatment survives the journal, so that unchanged borders stay untouched.
func TestATreatmentIsWrittenAndRead(t *testing.T) {
	want := border(t, all)
	text, err := json.Marshal(want)
	must(t, err)
	got, err := Module{}.Decode(text)
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s was read as %+v, want %+v", text, got, want)
	}
	if !slices.Equal(want.hooks(), []device.Hook{device.Ingress, device.Egress}) {
		t.Errorf("its programs are at %v", want.hooks())
	}
	shadow := want.InShadow()
	if text := shadow.Summary(); !strings.HasSuffix(text, "shadow") || want.Shadow {
		t.Errorf("in shadow: %s", text)
	}
}
