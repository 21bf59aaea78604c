// SPDX-License-Identifier: Apache-2.0

package iperf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/fault"
	"weir/kernel/netns"
	"weir/kernel/rtnl"
	"weir/kernel/testutil"
	"weir/lab/traffic"
	"weir/lab/traffic/workload"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sample(t testing.TB, name string) *report {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	r, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTCPReports(t *testing.T) {
	result := traffic.Result{Flow: traffic.Flow{Kind: traffic.Bulk, Streams: 2, Duration: time.Second}}
	fill(&result, sample(t, "tcp-client.json"), sample(t, "tcp-server.json"))
	if len(result.Streams) != 2 {
		t.Fatalf("%d streams", len(result.Streams))
	}
	for i, want := range []struct{ received, retransmits uint64 }{{1793458176, 0}, {1765146624, 398}} {
		s := result.Streams[i]
		if s.ReceivedBytes != want.received || s.Retransmits != want.retransmits || len(s.Received) != 10 || len(s.Readings) != 10 {
			t.Errorf("stream %d: %d bytes, %d retransmits, %d intervals, %d readings",
				i, s.ReceivedBytes, s.Retransmits, len(s.Received), len(s.Readings))
		}
		var octets uint64
		for _, n := range s.Received {
			octets += n
		}
		if octets == 0 || octets > s.ReceivedBytes {
			t.Errorf("stream %d: intervals hold %d of %d bytes", i, octets, s.ReceivedBytes)
		}
		if last := s.Readings[9]; last.Retransmits != want.retransmits || last.At <= 900*time.Millisecond || last.Cwnd == 0 {
			t.Errorf("stream %d: last reading %+v", i, last)
		}
	}
	if first := result.Streams[0]; first.MeanRTT != 427*time.Microsecond || first.Readings[3].SRTT != 99*time.Microsecond ||
		first.Readings[3].RTTVar != 130*time.Microsecond || result.RTT.Count() != 20 {
		t.Errorf("mean RTT %s, reading %+v, %d samples", first.MeanRTT, first.Readings[3], result.RTT.Count())
	}
	if result.Goodput != result.Streams[0].Goodput+result.Streams[1].Goodput || result.Goodput < 28_300_000_000 {
		t.Errorf("goodput %s", result.Goodput)
	}
}

func TestStreamsAreMatchedByPort(t *testing.T) {
	client, server := sample(t, "tcp-client.json"), sample(t, "tcp-server.json")
	server.Start.Connected[0], server.Start.Connected[1] = server.Start.Connected[1], server.Start.Connected[0]
	result := traffic.Result{Flow: traffic.Flow{Kind: traffic.Bulk, Streams: 2, Duration: time.Second}}
	fill(&result, client, server)
	if got := result.Streams[0].ReceivedBytes; got != 1793458176 {
		t.Errorf("stream 0 has %d bytes: the order of the server's list decided", got)
	}
}

func TestUDPReports(t *testing.T) {
	result := traffic.Result{Flow: traffic.Flow{Kind: traffic.Datagram, Streams: 1, Duration: time.Second}}
	fill(&result, sample(t, "udp-client.json"), sample(t, "udp-server.json"))
	s := result.Streams[0]
	if s.Sent != 2498 || s.Arrived != 2498 || s.ReceivedBytes != 2498000 || s.OutOfOrder != 0 || result.RTT != nil {
		t.Errorf("%+v", s)
	}
}

func TestErrorOfIperfIsTold(t *testing.T) {
	refused := sample(t, "refused.json")
	var result traffic.Result
	fill(&result, refused, nil)
	got := verdict(&result, &process{report: refused}, &process{}, nil, nil, nil)
	if got != "iperf3: unable to connect to server: Connection refused" || len(result.Streams) != 0 {
		t.Errorf("%q, %d streams", got, len(result.Streams))
	}
}

func FuzzReport(f *testing.F) {
	for _, name := range []string{"tcp-client.json", "tcp-server.json", "udp-client.json", "udp-server.json", "refused.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"start":{"connected":[{"socket":1,"local_port":2,"remote_port":2}],"tcp_mss_default":1e-300},` +
		`"intervals":[{"streams":[{"socket":1,"start":1e300,"bytes":-1,"snd_cwnd":1e300,"rtt":1e18}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil {
			return
		}
		for _, kind := range []traffic.Kind{traffic.Bulk, traffic.Datagram} {
			result := traffic.Result{Flow: traffic.Flow{Kind: kind, Streams: 1, Duration: time.Second}}
			fill(&result, r, r)
			if len(result.Streams) != len(r.Start.Connected) {
				t.Errorf("%d streams of %d connections", len(result.Streams), len(r.Start.Connected))
			}
		}
	})
}

func TestListedPorts(t *testing.T) {
	table := "  sl  local_address rem_address   st\n   0: 0200000A:1451 00000000:0000 0A 0\n   1: 0200000A:1452 0100000A:0BB8 01 0\n"
	if !listed(table, 0x1451) || listed(table, 0x1452) || listed(table, 0x51) || listed("", 1) {
		t.Error("listening ports are not told apart")
	}
}

func TestCheckSaysWhatIperfCannot(t *testing.T) {
	testutil.Command(t, program)
	good := traffic.Flow{Name: "f", Kind: traffic.Bulk, Streams: 1, Duration: time.Second}
	must(t, Generator{}.Check(good))
	for _, c := range []struct {
		spoil func(*traffic.Flow)
		want  string
	}{
		{func(f *traffic.Flow) { f.Duration += time.Millisecond }, "whole seconds"},
		{func(f *traffic.Flow) { f.Streams = 129 }, "128"},
		{func(f *traffic.Flow) { f.Bytes = 1 }, "bytes"},
		{func(f *traffic.Flow) { f.Kind, f.Request, f.Response, f.Concurrency = traffic.Request, 1, 1, 1 }, "request/response"},
		{func(f *traffic.Flow) {
			f.Kind, f.Load = traffic.Transfers, &workload.Load{Sizes: workload.Fixed(1000), PerSecond: 1}
			f.Streams = 1
		}, "come at random"},
	} {
		f := good
		c.spoil(&f)
		err := Generator{}.Check(f)
		if fault.Of(err) != fault.Usage || !strings.Contains(err.Error(), c.want) || fault.Advice(err) == "" {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestCheckWithoutIperf(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Generator{}.Check(traffic.Flow{Name: "f", Kind: traffic.Bulk, Streams: 1, Duration: time.Second})
	if fault.Of(err) != fault.Testbed || !strings.Contains(fault.Advice(err), "apt-get install iperf3") {
		t.Errorf("%v", err)
	}
}

// path is two hosts joined by a veth pair that is up.
func path(t *testing.T) (from, to map[int]traffic.Endpoint) {
	t.Helper()
	testutil.Command(t, program)
	from, to = map[int]traffic.Endpoint{}, map[int]traffic.Endpoint{}
	left, right := testutil.Namespace(t, "left"), testutil.Namespace(t, "right")
	a, b := dial(t, left), dial(t, right)
	must(t, a.AddVeth("a", right, "b", 0))
	for family, prefixes := range map[int][2]string{4: {"10.0.0.1/24", "10.0.0.2/24"}, 6: {"fd00::1/64", "fd00::2/64"}} {
		near, far := netip.MustParsePrefix(prefixes[0]), netip.MustParsePrefix(prefixes[1])
		must(t, errors.Join(a.AddAddress("a", near), b.AddAddress("b", far)))
		from[family] = traffic.Endpoint{Namespace: left, Address: near.Addr()}
		to[family] = traffic.Endpoint{Namespace: right, Address: far.Addr()}
	}
	must(t, errors.Join(a.SetUp("a"), b.SetUp("b")))
	testutil.Eventually(t, 5*time.Second, "the link", func() bool {
		near, err1 := a.Device("a")
		far, err2 := b.Device("b")
		return errors.Join(err1, err2) == nil && near.Running && far.Running
	})
	return from, to
}

func dial(t *testing.T, ns *netns.Namespace) *rtnl.Conn {
	t.Helper()
	conn, err := rtnl.Open(ns)
	must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func TestFlowsThroughARealPath(t *testing.T) {
	from, to := path(t)
	for _, f := range []traffic.Flow{
		{Name: "bulk", Kind: traffic.Bulk, Streams: 2, Duration: time.Second, Congestion: "reno", DSCP: 10, Rate: 80_000_000},
		{Name: "udp", Kind: traffic.Datagram, Streams: 2, Duration: time.Second, Rate: 8_000_000, Payload: 500},
	} {
		for _, family := range []int{4, 6} {
			t.Run(fmt.Sprintf("%s-IPv%d", f.Kind, family), func(t *testing.T) {
				t.Parallel()
				r, err := Generator{}.Run(context.Background(), f, from[family], to[family])
				must(t, err)
				if r.Failed != "" || len(r.Streams) != 2 {
					t.Fatalf("failed %q, %d streams", r.Failed, len(r.Streams))
				}
				for i, s := range r.Streams {
					if s.ReceivedBytes == 0 || s.Goodput == 0 || f.Kind == traffic.Datagram && (s.Sent == 0 || s.Arrived > s.Sent) {
						t.Errorf("stream %d: %+v", i, s)
					}
				}
			})
		}
	}
}

func TestUnreachableServerFails(t *testing.T) {
	from, to := path(t)
	must(t, dial(t, to[4].Namespace).SetDown("b"))
	f := traffic.Flow{Name: "bulk", Kind: traffic.Bulk, Streams: 1, Duration: time.Second}
	r, err := Generator{}.Run(context.Background(), f, from[4], to[4])
	must(t, err)
	if !strings.HasPrefix(r.Failed, "iperf3: ") {
		t.Errorf("failed: %q", r.Failed)
	}
}

func TestCancelEndsIperf(t *testing.T) {
	from, to := path(t)
	f := traffic.Flow{Name: "bulk", Kind: traffic.Bulk, Streams: 1, Duration: time.Hour, Rate: 1_000_000}
	// Some are over while the server starts, the last while the client sends.
	for _, limit := range []time.Duration{time.Nanosecond, 2 * time.Millisecond, 4 * time.Millisecond, 6 * time.Millisecond, 300 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		r, err := Generator{}.Run(ctx, f, from[4], to[4])
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || r.Failed == "" {
			t.Errorf("stopped after %s: error %v, failed %q", limit, err, r.Failed)
		}
	}
}
