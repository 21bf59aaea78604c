// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/child"
	"weir/kernel/cgroup"
	"weir/kernel/netns"
	"weir/kernel/testutil"
)

func TestMain(m *testing.M) {
	child.Main(child.Parts{cgroup.SocketsPart: cgroup.ServeSockets})
	os.Exit(m.Run())
}

// senders is a chain with a domain that begins at alpha, the host of the senders. Sockets of its
// cgroup accept contexts.
type senders struct {
	*chain
	group   cgroup.Cgroup
	sockets *cgroup.Sockets
}

const takesContexts = "\n  socket_context: true"

// newSenders makes the domain, which ends at aramis, with more keys in alpha's section. Routers
// between them are nodes if they are named.
func newSenders(t testing.TB, more, treatment string, routers ...string) *senders {
	t.Helper()
	s := &senders{chain: newChain(t, 1500), group: testutil.Cgroup(t)}
	s.planes["alpha"].host.CgroupRoot = s.group.Path
	s.begin(t, more, treatment)
	for i, name := range routers {
		s.apply(t, name, nodePolicy(2+i, "ingress, egress", "ingress, egress", "", ""))
	}
	s.apply(t, "aramis", nodePolicy(2+len(routers), "ingress, egress", "", ", remove: true", ""))
	var err error
	if s.sockets, err = s.group.OpenSockets(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.sockets.Close() })
	return s
}

// begin applies a policy at alpha.
func (s *senders) begin(t testing.TB, more, treatment string) {
	t.Helper()
	text := nodePolicy(1, "", "ingress, egress", ", schema: 9, state: rack", `beta: {prefix: "2001:db8:4::/64", ioam: {namespace: 123, `+treatment+`}}`)
	s.apply(t, "alpha", strings.Replace(text, "node: 1", "node: 1"+more, 1))
}

// socket makes a socket of the cgroup in a namespace.
func (s *senders) socket(t testing.TB, ns *netns.Namespace, family, kind, protocol int) int {
	t.Helper()
	fd, err := s.sockets.SocketOf(ns, family, kind, protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// say sets the context of a socket. It skips the test on a kernel without socket storage for
// programs.
func say(t testing.TB, fd int, context string) {
	t.Helper()
	err := unix.SetsockoptString(fd, SocketLevel, SocketContext, context)
	if errors.Is(err, unix.ENOMEM) {
		testutil.Need(t, "sk_storage-updates", err)
	}
	if err != nil {
		t.Fatalf("say %q: %v", context, err)
	}
}

// octetsOf returns the other form of a context.
func octetsOf(t *testing.T, text string) string {
	t.Helper()
	octets, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(octets)
}

// toBeta returns a UDP socket to beta, and the receiving end.
func (s *senders) toBeta(t testing.TB) (from, to int) {
	t.Helper()
	from = s.socket(t, s.ns["alpha"], unix.AF_INET6, unix.SOCK_DGRAM, 0)
	to = s.chain.socket(t, "beta", unix.SOCK_DGRAM, netip.AddrPortFrom(beta, 0))
	name, err := unix.Getsockname(to)
	if err == nil {
		err = unix.Connect(from, name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return from, to
}

// Each datagram carries the last context of its socket. Other node data and the received datagram
// are unaffected. Without a context the trace has the node's own state.
func TestADatagramCarriesTheContextOfItsSocket(t *testing.T) {
	s := newSenders(t, takesContexts, "trace: [node, interfaces, timestamps, checksum, state], nodes: 4", "athos", "porthos")
	reader := s.reader(t, "aramis")
	from, to := s.toBeta(t)
	other, _ := s.toBeta(t)
	later := "01-" + valid[3:52] + "-00"
	say(t, other, valid) // of another socket
	carried := uint64(0)
	for i, step := range []struct{ said, told string }{
		{"nothing is said", ""}, {valid, valid}, {"nothing is said", valid}, {octetsOf(t, later), later}, {"", ""}, {valid, valid},
	} {
		if step.said != "nothing is said" {
			say(t, from, step.said)
		}
		sent := bytes.Repeat([]byte{byte('a' + i)}, 100+i)
		if _, err := unix.Write(from, sent); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2000)
		if n, err := testutil.Read(to, got); err != nil || !bytes.Equal(got[:n], sent) {
			t.Fatalf("step %d: beta got %d octets, %v", i, n, err)
		}
		r, told, state := next(t, reader), "", "rack"
		if !r.Context.IsZero() {
			told, state, carried = r.Context.String(), "", carried+1
		}
		if told != step.told || len(r.Traces) != 1 || len(r.Traces[0].Hops) != 4 || r.Traces[0].Overflow {
			t.Fatalf("step %d: told %q, want %q: %+v", i, told, step.told, r.Traces)
		}
		for j, h := range r.Traces[0].Hops {
			if id := uint64(j + 1); h.Node != id || !h.Received.Known || j > 0 && h.Ingress.Value != uint32(10*id) {
				t.Errorf("step %d: hop %d is %+v", i, j, h)
			}
		}
		if h := r.Traces[0].Hops[0]; string(h.State) != state {
			t.Errorf("step %d: alpha's state is %q, want %q", i, h.State, state)
		}
	}
	if n := s.count(t, "alpha", "socket_contexts"); n != carried {
		t.Errorf("alpha has counted %d contexts of %d", n, carried)
	}
	if n := s.count(t, "aramis", "bad_node_length") + s.count(t, "athos", "overflow"); n != 0 {
		t.Errorf("%d invalid traces", n)
	}
}

// The kernel handles all values that are not a context of a socket of the node.
func TestWhatSocketsTake(t *testing.T) {
	s := newSenders(t, takesContexts, allFields)
	datagram := s.socket(t, s.ns["alpha"], unix.AF_INET6, unix.SOCK_DGRAM, 0)
	stream := s.socket(t, s.ns["alpha"], unix.AF_INET6, unix.SOCK_STREAM, 0)
	say(t, datagram, valid)
	for name, test := range map[string]struct {
		fd, level, option int
		value             string
		want              error
	}{
		"of TCP":               {stream, SocketLevel, SocketContext, valid, nil},
		"of nobody's cgroup":   {s.chain.socket(t, "alpha", unix.SOCK_DGRAM, netip.AddrPortFrom(alpha, 0)), SocketLevel, SocketContext, valid, unix.ENOPROTOOPT},
		"of another namespace": {s.socket(t, s.ns["beta"], unix.AF_INET6, unix.SOCK_DGRAM, 0), SocketLevel, SocketContext, valid, unix.ENOPROTOOPT},
		"of another user's":    {s.socket(t, testutil.ForeignNamespace(t), unix.AF_INET6, unix.SOCK_DGRAM, 0), SocketLevel, SocketContext, valid, unix.ENOPROTOOPT},
		"of IPv4":              {s.socket(t, s.ns["alpha"], unix.AF_INET, unix.SOCK_DGRAM, 0), SocketLevel, SocketContext, valid, unix.ENOPROTOOPT},
		"another option":       {stream, SocketLevel, SocketContext + 1, valid, unix.ENOPROTOOPT},
		"one octet short":      {stream, SocketLevel, SocketContext, valid[:54], unix.EINVAL},
		"one too many":         {stream, SocketLevel, SocketContext, valid + "0", unix.EINVAL},
		"capital digits":       {stream, SocketLevel, SocketContext, strings.ToUpper(valid), unix.EINVAL},
		"other separators":     {stream, SocketLevel, SocketContext, strings.ReplaceAll(valid, "-", "0"), unix.EINVAL},
		"version ff":           {stream, SocketLevel, SocketContext, "ff" + valid[2:], unix.EINVAL},
		"trace of zeros":       {stream, SocketLevel, SocketContext, "00-" + strings.Repeat("0", 32) + valid[35:], unix.EINVAL},
		"parent of zeros":      {stream, SocketLevel, SocketContext, octetsOf(t, valid[:36]+strings.Repeat("0", 16)+"-01"), unix.EINVAL},
		"cleared unsaid":       {s.socket(t, s.ns["alpha"], unix.AF_INET6, unix.SOCK_STREAM, 0), SocketLevel, SocketContext, "", nil},
		// Programs see the first page of a longer value.
		"long, of the kernel's": {stream, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno\x00" + strings.Repeat("x", 3*os.Getpagesize()), nil},
		"long, of nobody's":     {stream, SocketLevel, SocketContext + 1, strings.Repeat("x", 3*os.Getpagesize()), unix.ENOPROTOOPT},
	} {
		if err := unix.SetsockoptString(test.fd, test.level, test.option, test.value); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if name, err := unix.GetsockoptString(stream, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil || name != "reno" {
		t.Errorf("the congestion control is %q, %v", name, err)
	}
}

// With socket contexts disabled, sockets accept none and traces carry none. Enabled again, earlier
// contexts stay unused. A release leaves no object.
func TestContextsOfSocketsAreSwitched(t *testing.T) {
	s := newSenders(t, "", allFields)
	reader := s.reader(t, "aramis")
	from, to := s.toBeta(t)
	said := func() error { return unix.SetsockoptString(from, SocketLevel, SocketContext, valid) }
	tells := func(want bool) {
		t.Helper()
		if _, err := unix.Write(from, []byte("weir")); err != nil {
			t.Fatal(err)
		}
		if _, err := testutil.Read(to, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if r := next(t, reader); r.Context.IsZero() == want {
			t.Errorf("told %q, want some: %t", r.Context, want)
		}
	}
	off := func() {
		t.Helper()
		testutil.Eventually(t, 20*time.Second, "the end of the option", func() bool { return errors.Is(said(), unix.ENOPROTOOPT) })
		tells(false)
	}
	off()
	s.begin(t, takesContexts, allFields)
	say(t, from, valid)
	tells(true)
	s.begin(t, takesContexts, strings.Replace(allFields, "data", "checksum", 1)) // another policy with the same epoch
	tells(true)
	s.begin(t, "", allFields)
	off()
	s.begin(t, takesContexts, allFields)
	tells(false)
	say(t, from, valid)
	tells(true)
	if _, err := s.planes["alpha"].Release(); err != nil {
		t.Fatal(err)
	}
	s.states["alpha"] = stateOf(t, "ioam: {node: 1}")
	testutil.Eventually(t, 20*time.Second, "the end of the option", func() bool { return errors.Is(said(), unix.ENOPROTOOPT) })
	if _, err := os.Stat(s.planes["alpha"].host.Pins); err == nil {
		t.Error("pins are left")
	}
}

// While one thread sets contexts, packets of another thread have whole ones.
func TestAContextIsNeverTorn(t *testing.T) {
	s := newSenders(t, takesContexts, allFields)
	reader := s.reader(t, "aramis")
	from, to := s.toBeta(t)
	all := []string{valid, "00-" + strings.Repeat("12", 16) + "-" + strings.Repeat("34", 8) + "-01"}
	say(t, from, all[0])
	const packets = 200
	stop := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := unix.SetsockoptString(from, SocketLevel, SocketContext, all[i%2]); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range packets {
		if _, err := unix.Write(from, []byte("weir")); err != nil {
			t.Fatal(err)
		}
		if _, err := testutil.Read(to, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if r := next(t, reader); r.Context.String() != all[0] && r.Context.String() != all[1] {
			t.Errorf("told %s", r.Context)
		}
	}
	close(stop)
	saying.Wait()
}
