// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"weir/bpf/headers"
	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/probe"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/modules/ioam/node"
	"weir/record"
	"weir/record/bundle"
)

const ioamPolicy = `version: 1
ioam:
  node: %N
  interfaces: {veth: {id: 1, roles: [ingress, egress]}}
  namespaces: {123: {remove: true, proof: %P}}
scopes: {%S}
`

// ioamHosts returns two linked hosts, with a ground for each.
func ioamHosts(t *testing.T) (hosts [2]*netns.Namespace, grounds [2]ground) {
	t.Helper()
	hosts = [2]*netns.Namespace{testutil.Namespace(t, "one"), testutil.Namespace(t, "two")}
	var conns [2]*rtnl.Conn
	for i, ns := range hosts {
		conn, err := rtnl.Open(ns)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns[i] = conn
		grounds[i] = ground{t.TempDir(), filepath.Join(testutil.BPFFS(t), "weir"), testutil.Cgroup(t).Path}
	}
	if err := conns[0].AddVeth("veth", hosts[1], "veth", 1500); err != nil {
		t.Fatal(err)
	}
	for i, conn := range conns {
		address := netip.PrefixFrom(netip.MustParseAddr("2001:db8::").Next(), 64)
		if i == 1 {
			address = netip.PrefixFrom(address.Addr().Next(), 64)
		}
		if err := conn.SetUp("veth"); err != nil {
			t.Fatal(err)
		}
		if err := conn.AddAddress("veth", address); err != nil {
			t.Fatal(err)
		}
	}
	return hosts, grounds
}

// whileRead calls a function while another reader has the records.
func (g ground) whileRead(t *testing.T, do func()) {
	t.Helper()
	reader, err := node.OpenRecords(filepath.Join(g.Pins, node.Name))
	if err != nil {
		t.Fatal(err)
	}
	do()
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
}

// in runs a command line inside a host.
func (g ground) in(t *testing.T, ns *netns.Namespace, want fault.Status, args ...string) (out string) {
	t.Helper()
	if err := ns.Do(func() error { out = g.weir(t, want, args...); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// Two hosts become nodes by commands alone. The second one shows the path, loss and the proof, and
// sends traces to an OpenTelemetry receiver.
func TestIOAMBetweenTwoHosts(t *testing.T) {
	hosts, grounds := ioamHosts(t)
	folder := t.TempDir()
	var files struct{ Files []string }
	if err := json.Unmarshal([]byte(grounds[0].weir(t, fault.OK, "ioam", "proof", "--nodes", "2", "--out", folder, "--format", "json")), &files); err != nil || len(files.Files) != 2 {
		t.Fatal(err, files)
	}
	for i, ns := range hosts {
		scope := ""
		if i == 0 {
			scope = `two: {prefix: "2001:db8::2/128", ioam: {namespace: 123, trace: [node, timestamps], proof: true, edge: [sequence, timestamps]}}`
		}
		text := strings.NewReplacer("%N", string(rune('1'+i)), "%P", files.Files[i], "%S", scope).Replace(ioamPolicy)
		file := filepath.Join(folder, "policy.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		grounds[i].in(t, ns, fault.OK, "apply", file)
		contains(t, "plan", grounds[i].in(t, ns, fault.OK, "plan", file), "Nothing changes.")
	}
	var socket int
	err := hosts[0].Do(func() (err error) {
		socket, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	send := func(packets int) {
		for range packets {
			to := &unix.SockaddrInet6{Port: 9, Addr: netip.MustParseAddr("2001:db8::2").As16()}
			if err := unix.Sendto(socket, []byte("weir"), 0, to); err != nil && err != unix.ECONNREFUSED {
				t.Fatal(err)
			}
		}
	}
	var received atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var traces struct{ ResourceSpans []any }
		if err := json.NewDecoder(r.Body).Decode(&traces); err != nil || len(traces.ResourceSpans) != 1 {
			t.Errorf("%v, %+v", err, traces)
		}
		received.Add(1)
	}))
	defer server.Close()
	send(6)
	g := grounds[1] // pins are readable in every network namespace
	g.weir(t, fault.Usage, "ioam", "watch", "--otlp-metrics", "localhost:4318")
	g.whileRead(t, func() { g.weir(t, fault.Usage, "ioam", "watch", "--count", "1") })
	contains(t, "watch", g.weir(t, fault.OK, "ioam", "watch", "--count", "1"), "2001:db8::1", "proof holds", "namespace 123: 1 -", "> 2")
	contains(t, "watch", g.weir(t, fault.OK, "ioam", "watch", "--count", "1", "--format", "json", "--otlp", server.URL), `"proof":"holds"`, `"hops":[{"node":1,`)
	if received.Load() == 0 {
		t.Error("the receiver got no traces")
	}
	contains(t, "status", g.in(t, hosts[1], fault.OK, "status"), "ioam: the node has counted: ", "removed 6", "exported 6")
	metrics := make(chan string, 1)
	totals := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		metrics <- string(body)
	}))
	defer totals.Close()
	g.weir(t, fault.OK, "ioam", "watch", "--quiet", "--count", "1", "--otlp-metrics", totals.URL)
	contains(t, "metrics", <-metrics, `"weir.ioam.path.delay"`, `"weir.ioam.edge.lost"`, `"2001:db8::1"`)
	dir := filepath.Join(folder, "bundle")
	g.weir(t, fault.OK, "ioam", "watch", "--quiet", "--count", "1", "--to", "2001:db8::2", "--out", dir)
	b, err := bundle.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Distributions) != 2 || b.Manifest.Kind != "ioam" || !slices.ContainsFunc(b.Samples, func(s record.Sample) bool { return s.Subject == "hop 1, node 1" && s.Metric == "ioam_hop_p50" }) {
		t.Errorf("the bundle has %d distributions, %+v", len(b.Distributions), b.Samples)
	}
	g.weir(t, fault.Usage, "ioam", "watch", "--count", "1", "--out", folder)
	contains(t, "path", g.weir(t, fault.OK, "ioam", "path", "2001:db8::2", "--count", "2"), "2 packets, namespace 123", "to the next node")
	g.weir(t, fault.Failed, "ioam", "path", "2001:db8::7", "--duration", "10ms")
	g.weir(t, fault.Usage, "ioam", "path", "nowhere")
	contains(t, "edges", g.weir(t, fault.OK, "ioam", "edges"), "[2001:db8::1]:", "lost")
	contains(t, "status", grounds[0].in(t, hosts[0], fault.OK, "status"), "with IOAM", "every packet")
	for i, ns := range hosts {
		grounds[i].in(t, ns, fault.OK, "release")
		if _, err := os.Stat(grounds[i].Pins); err == nil {
			t.Errorf("host %d: pins are left", i+1)
		}
	}
	g.weir(t, fault.Usage, "ioam", "edges")
}

// One packet is charged to its limit, marked by its class, and gets options for one port, with and
// without extension headers of its socket.
func TestOnePacketInThreeModules(t *testing.T) {
	testutil.Need(t, "fq", probe.Qdisc("fq"))
	hosts, grounds := ioamHosts(t)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	scope := `two: {prefix: "2001:db8::2/128", egress: {rate: 100Mbit, mode: shape}, class: lbe, ioam: {namespace: 123, trace: [node, timestamps], protocol: udp, port: 9}}`
	text := strings.NewReplacer("%N", "1", ", proof: %P", "", "%S", scope).Replace(ioamPolicy)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	grounds[0].in(t, hosts[0], fault.OK, "apply", file)
	frames := captured(t, hosts[1], "veth", unix.ETH_P_IPV6)
	err := hosts[0].Do(func() error {
		for _, give := range []func(*net.UDPConn) error{func(*net.UDPConn) error { return nil }, giveHeaders} {
			conn, err := net.Dial("udp6", "[2001:db8::2]:9")
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			if err := give(conn.(*net.UDPConn)); err != nil {
				return err
			}
			if _, err := io.WriteString(conn, "weir"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const ethernet, lbe, preallocated = 14, 1, 49
	for _, behind := range []byte{unix.IPPROTO_UDP, headers.Destination} {
		p := frames()[ethernet:]
		for headers.Read(p).Protocol == unix.IPPROTO_ICMPV6 {
			p = frames()[ethernet:] // neighbour discovery
		}
		dscp := (p[0]<<4 | p[1]>>4) >> 2
		if dscp != lbe || p[6] != headers.HopByHop || p[40] != behind || headers.Read(p).Protocol != unix.IPPROTO_UDP || !slices.Contains(p[42:48], preallocated) {
			t.Errorf("DSCP %d, next headers %d and %d, want %d: % x", dscp, p[6], p[40], behind, p[:min(80, len(p))])
		}
	}
	var status struct {
		Modules []struct {
			Module string
			Rows   []struct{ Values map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(grounds[0].in(t, hosts[0], fault.OK, "status", "--format", "json")), &status); err != nil {
		t.Fatal(err)
	}
	const packets = 2
	for _, counted := range []struct{ module, column string }{{"limit", "packets"}, {"class", "marked"}, {"ioam", "packets"}} {
		found := false
		for _, module := range status.Modules {
			for _, row := range module.Rows {
				n, known := row.Values[counted.column].(float64)
				found = found || module.Module == counted.module && known && n >= packets
			}
		}
		if !found {
			t.Errorf("%s of %s were not counted", counted.column, counted.module)
		}
	}
	grounds[0].in(t, hosts[0], fault.OK, "release")
}

// giveHeaders makes a socket send a Hop-by-Hop and a Destination header with each packet (RFC
// 3542).
func giveHeaders(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var hop, destination error
	err = raw.Control(func(fd uintptr) {
		hop = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_HOPOPTS, string(headers.Options(headers.HopByHop, 16).Octets))
		destination = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, string(headers.Options(headers.Destination, 8).Octets))
	})
	return errors.Join(err, hop, destination)
}

// captured receives the frames of a protocol at a device from now on.
func captured(t *testing.T, ns *netns.Namespace, dev string, protocol uint16) func() []byte {
	t.Helper()
	var socket int
	err := ns.Do(func() error {
		device, err := net.InterfaceByName(dev)
		if err != nil {
			return err
		}
		protocol = protocol<<8 | protocol>>8
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(protocol)); err != nil {
			return err
		}
		return errors.Join(unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: device.Index}),
			unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	return func() []byte {
		frame := make([]byte, 2000)
		n, err := testutil.Read(socket, frame)
		if err != nil {
			t.Fatal(err)
		}
		return frame[:n]
	}
}
