// SPDX-License-Identifier: Apache-2.0

package datagrams

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"weir/internal/dscp"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
)

// pair makes two namespaces joined by a veth pair, with addresses .1 and .2, and the peer's address
// without duplicate address detection.
func pair(t *testing.T) (here, there *netns.Namespace) {
	t.Helper()
	here, there = testutil.Namespace(t, "here"), testutil.Namespace(t, "there")
	ours, err := rtnl.Open(here)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := rtnl.Open(there)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	for _, step := range []func() error{
		func() error { return ours.AddVeth("eth0", there, "eth0", 0) },
		func() error { return ours.AddAddress("eth0", netip.MustParsePrefix("10.9.0.1/24")) },
		func() error { return theirs.AddAddress("eth0", netip.MustParsePrefix("10.9.0.2/24")) },
		func() error { return ours.AddAddress("eth0", netip.MustParsePrefix("fd00:9::1/64")) },
		func() error { return theirs.AddAddress("eth0", netip.MustParsePrefix("fd00:9::2/64")) },
		func() error { return ours.SetUp("eth0") },
		func() error { return theirs.SetUp("eth0") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return here, there
}

// ownGroup is a cgroup with this process in it.
func ownGroup(t *testing.T) string {
	t.Helper()
	group := testutil.Cgroup(t)
	former, err := cgroup.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := former.Add(os.Getpid()); err != nil {
			t.Error(err)
		}
	})
	if err := group.Add(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	return group.Path
}

// TestExcessDatagramsAreDropped sends datagrams at a rate of an octet per second: the first one
// passes, and the others find its virtual queue.
func TestExcessDatagramsAreDropped(t *testing.T) {
	testutil.NeedRoot(t)
	here, there := pair(t)
	for name, address := range map[string]string{"IPv4": "10.9.0.2", "IPv6": "fd00:9::2"} {
		t.Run(name, func(t *testing.T) {
			var server, client net.Conn
			err := there.Do(func() (err error) {
				packets, err := net.ListenPacket("udp", net.JoinHostPort(address, "0"))
				if err == nil {
					server = packets.(*net.UDPConn)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			h, err := load(dscp.LowEffort)
			if err != nil {
				t.Fatal(err)
			}
			group := ownGroup(t)
			if err := h.attach(group); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = h.detach() }()
			if err := h.limit(1, time.Second); err != nil {
				t.Fatal(err)
			}
			if err := here.Do(func() (err error) {
				client, err = net.Dial("udp", server.LocalAddr().String())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			const sent = 5
			for range sent {
				if _, err := client.Write(make([]byte, 100)); err != nil {
					t.Fatal(err) // a drop is not reported to the socket
				}
			}
			testutil.Eventually(t, 10*time.Second, "four of five datagrams to be dropped", func() bool {
				counts, err := h.Counts()
				return err == nil && counts.Dropped == sent-1 && counts.Octets > 100 && counts.Octets < 200
			})
			var key datagramsDatagramsPeer
			var octets uint64
			if all := h.objects.DatagramsPeers.Iterate(); !all.Next(&key, &octets) || key.addr().String() != address || octets < 500 {
				t.Errorf("counted %d octets of %v", octets, key.addr())
			}
		})
	}
}

// TestEchoes measures round trips to this host.
func TestEchoes(t *testing.T) {
	testutil.NeedRoot(t)
	replies := make(chan reply, 64)
	e, err := openEchoes(netip.MustParseAddr("127.0.0.1"), dscp.LowEffort, 4711, replies)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	for seq := uint16(1); seq <= 3; seq++ {
		if err := e.send(seq); err != nil {
			t.Fatal(err)
		}
		if got := <-replies; got.seq != seq || got.from != e {
			t.Errorf("reply %+v to request %d", got, seq)
		}
	}
}

func TestEchoesOfOthersAreIgnored(t *testing.T) {
	for _, test := range []struct {
		ipv6    bool
		message []byte
		want    bool
	}{
		{false, []byte{0, 0, 0, 0, 0, 7, 0, 9}, true},
		{false, []byte{0, 0, 0, 0, 0, 8, 0, 9}, false}, // of another program
		{false, []byte{8, 0, 0, 0, 0, 7, 0, 9}, false}, // a request
		{false, []byte{0, 0, 0, 0, 0, 7, 0}, false},
		{true, []byte{129, 0, 0, 0, 0, 7, 0, 9}, true},
		{true, []byte{0, 0, 0, 0, 0, 7, 0, 9}, false},
	} {
		e := &echoes{ipv6: test.ipv6, id: 7}
		if seq, ok := e.parse(test.message); ok != test.want || ok && seq != 9 {
			t.Errorf("%v: %d, %v", test, seq, ok)
		}
	}
}
