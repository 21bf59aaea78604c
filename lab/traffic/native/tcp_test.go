// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/fault"
	"weir/internal/units"
	"weir/kernel/testutil"
	"weir/lab/traffic"
)

func bulk(streams int) traffic.Flow {
	return traffic.Flow{Name: "bulk", Kind: traffic.Bulk, Streams: streams, Duration: 300 * time.Millisecond}
}

func sum(values []uint64) (total uint64) {
	for _, v := range values {
		total += v
	}
	return total
}

func TestBulkCountsAtTheReceiver(t *testing.T) {
	p := newPath(t)
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			f := bulk(2)
			f.Congestion = "reno"
			r := p.run(t, family, f)
			for i, s := range r.Streams {
				if s.ReceivedBytes == 0 || s.SentSegments == 0 || len(s.Readings) == 0 || s.MeanRTT <= 0 {
					t.Errorf("stream %d: %+v: something was not measured", i, s)
				}
				if len(s.Received) != 3 || sum(s.Received) != s.ReceivedBytes {
					t.Errorf("stream %d: intervals %v do not add up to %d", i, s.Received, s.ReceivedBytes)
				}
				for j, reading := range s.Readings {
					if reading.Cwnd == 0 || reading.At <= 0 || j > 0 && reading.At <= s.Readings[j-1].At {
						t.Errorf("stream %d, reading %d: %+v", i, j, reading)
					}
				}
			}
			if r.RTT.Count() == 0 || r.Goodput != r.Streams[0].Goodput+r.Streams[1].Goodput || !r.LossEventsExact {
				t.Errorf("RTT samples %d, goodput %s, exact loss events %v", r.RTT.Count(), r.Goodput, r.LossEventsExact)
			}
		})
	}
}

func TestByteLimitArrivesWhole(t *testing.T) {
	p := newPath(t)
	f := bulk(3)
	f.Bytes, f.Duration = 3_000_001, 0
	// A rate of 96 Mbit/s makes each stream last long enough for a sample of its state.
	f.Rate = 288_000_000
	for i, s := range p.run(t, 4, f).Streams {
		if s.ReceivedBytes != uint64(f.Bytes) || s.Finished <= 0 || sum(s.Received) != s.ReceivedBytes {
			t.Errorf("stream %d: %d bytes received of %d, finished after %s", i, s.ReceivedBytes, f.Bytes, s.Finished)
		}
		// The sender's count of acknowledged bytes includes SYN and FIN; the last reading may be
		// earlier than the end.
		if n := len(s.Readings); n == 0 || s.Readings[n-1].BytesAcked > uint64(f.Bytes)+2 {
			t.Errorf("stream %d: %d readings; acknowledged more than was sent", i, n)
		}
	}
}

func TestAcknowledgedEqualsReceived(t *testing.T) {
	p := newPath(t)
	f := bulk(1)
	f.Bytes = 1 << 20
	s, err := prepare(f, p.from[4], p.to[4])
	must(t, err)
	defer s.close()
	must(t, errors.Join(s.run(context.Background())...))
	info, err := s.connections[0].client.info()
	must(t, err)
	if got := s.connections[0].meter.total; got != 1<<20 || info.Bytes_acked-got > 2 {
		t.Errorf("received %d, acknowledged %d", got, info.Bytes_acked)
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	p := newPath(t)
	f := bulk(1)
	f.Bytes = 1
	s, err := prepare(f, p.from[4], p.to[4])
	must(t, err)
	defer s.close()
	must(t, errors.Join(s.run(context.Background())...))
	server := s.connections[0].server
	// The end of the run interrupts the socket from its own goroutines, once or twice; an
	// interrupted measurement is repeated.
	var allocations float64
	testutil.Eventually(t, 10*time.Second, "reads behind the end of the stream", func() bool {
		must(t, server.file.SetDeadline(time.Time{}))
		whole := true
		allocations = testing.AllocsPerRun(100, func() {
			n, err := server.discard(readSize)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				whole = false
			} else if n != 0 || err != nil {
				t.Errorf("behind the end of the stream: %d bytes, %v", n, err)
			}
		})
		return whole
	})
	if allocations > 0 {
		t.Errorf("%g allocations per read", allocations)
	}
}

func TestRateLimitIsKept(t *testing.T) {
	p := newPath(t)
	f := bulk(2)
	f.Rate = 16 * 1000 * 1000
	r := p.run(t, 4, f)
	// One write per stream may be ahead of the rate.
	if limit := uint64(float64(f.Rate)/8*f.Duration.Seconds()) + 2*16000; r.Streams[0].ReceivedBytes+r.Streams[1].ReceivedBytes > limit {
		t.Errorf("received %d and %d bytes: above %d", r.Streams[0].ReceivedBytes, r.Streams[1].ReceivedBytes, limit)
	}
}

func TestCongestionControlIsAppliedToBothEnds(t *testing.T) {
	ss := testutil.Command(t, "ss")
	p := newPath(t)
	f := bulk(1)
	f.Congestion, f.Duration = "reno", 30*time.Second
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := New().Run(ctx, f, p.from[4], p.to[4])
		ended <- err
	}()
	for _, end := range []traffic.Endpoint{p.from[4], p.to[4]} {
		testutil.Eventually(t, 5*time.Second, "ss shows reno", func() bool {
			text, err := inside(end.Namespace, ss, "-Htin", "state", "established")
			return err == nil && strings.Contains(text, " reno ") && !strings.Contains(text, "cubic")
		})
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled flow returned %v", err)
	}
	text, err := inside(p.from[4].Namespace, ss, "-Htan")
	if must(t, err); strings.TrimSpace(text) != "" {
		t.Errorf("sockets are left after the flow:\n%s", text)
	}
}

func TestCancelKeepsWhatWasMeasured(t *testing.T) {
	p := newPath(t)
	leaks := leakCheck(t)
	f := bulk(1)
	f.Duration = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	r, err := New().Run(ctx, f, p.from[4], p.to[4])
	if !errors.Is(err, context.DeadlineExceeded) || r.Failed == "" || r.Streams[0].ReceivedBytes == 0 {
		t.Errorf("error %v, failed %q, %d bytes", err, r.Failed, r.Streams[0].ReceivedBytes)
	}
	leaks()
}

func TestCancelBeforeTheStart(t *testing.T) {
	p := newPath(t)
	leaks := leakCheck(t)
	for _, f := range []traffic.Flow{bulk(2), datagramFlow(2)} {
		f.Start = time.Hour
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := New().Run(ctx, f, p.from[4], p.to[4]); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the cancelled flow returned %v", f.Kind, err)
		}
	}
	leaks()
}

func TestUnreachableReceiverIsReported(t *testing.T) {
	p := newPath(t)
	must(t, dial(t, p.to[4].Namespace).SetDown("b"))
	f := bulk(2)
	r, err := New().Run(context.Background(), f, p.from[4], p.to[4])
	must(t, err)
	if !strings.Contains(r.Failed, "stream 1: connect to 10.0.0.2:") || !strings.Contains(r.Failed, "1 more of 2") {
		t.Errorf("failed: %q", r.Failed)
	}
	if r.Streams[0].ReceivedBytes != 0 || r.Goodput != 0 {
		t.Errorf("bytes over a broken path: %+v", r.Streams[0])
	}
}

func TestLostHandshakeIsRepeated(t *testing.T) {
	ss := testutil.Command(t, "ss")
	p := newPath(t)
	far := dial(t, p.to[4].Namespace)
	must(t, far.SetDown("b"))
	f := bulk(1)
	f.Bytes, f.Duration = 10_000, 30*time.Second
	type outcome struct {
		result traffic.Result
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		r, err := New().Run(context.Background(), f, p.from[4], p.to[4])
		ended <- outcome{r, err}
	}()
	testutil.Eventually(t, 5*time.Second, "a lost SYN", func() bool {
		text, err := inside(p.from[4].Namespace, ss, "-Htan", "state", "syn-sent")
		return err == nil && strings.Contains(text, "10.0.0.2")
	})
	must(t, far.SetUp("b"))
	got := <-ended
	if got.err != nil || got.result.Failed != "" || got.result.Streams[0].ReceivedBytes != 10_000 {
		t.Errorf("error %v, failed %q, %+v", got.err, got.result.Failed, got.result.Streams)
	}
}

func TestRefusedConnectionIsReported(t *testing.T) {
	p := newPath(t)
	f := bulk(1)
	f.Duration = 30 * time.Second
	s, err := prepare(f, p.from[4], p.to[4])
	must(t, err)
	defer s.close()
	s.listener.close()
	if err := errors.Join(s.run(context.Background())...); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestResetByTheReceiverIsReported(t *testing.T) {
	p := newPath(t)
	f := bulk(1)
	f.Duration = 30 * time.Second
	s, err := prepare(f, p.from[4], p.to[4])
	must(t, err)
	defer s.close()
	go func() {
		<-s.connections[0].accepted
		s.connections[0].server.abort()
	}()
	err = errors.Join(s.run(context.Background())...)
	if err == nil {
		t.Error("a reset connection is not reported")
	}
}

func TestRequestExchangesAreCounted(t *testing.T) {
	p := newPath(t)
	for _, sizes := range []struct{ request, response units.ByteSize }{{100, 300_000}, {300_000, 100}, {1, 1}} {
		t.Run(fmt.Sprintf("%d-%d", sizes.request, sizes.response), func(t *testing.T) {
			f := traffic.Flow{Name: "rpc", Kind: traffic.Request, Streams: 2, Concurrency: 3, Duration: 500 * time.Millisecond,
				Request: sizes.request, Response: sizes.response, Congestion: "reno"}
			r := p.run(t, 4, f)
			octets := r.Streams[0].ReceivedBytes + r.Streams[1].ReceivedBytes
			larger := uint64(max(sizes.request, sizes.response))
			complete := r.Exchanges.Count() * larger
			// Beyond the complete exchanges, each of the six connections has at most one in flight.
			if complete == 0 || octets < complete || octets > complete+6*larger {
				t.Errorf("%d exchanges of %d bytes, %d bytes received", r.Exchanges.Count(), larger, octets)
			}
			if r.Exchanges.Max() > uint64(f.Duration) || r.RTT.Count() == 0 {
				t.Errorf("longest exchange %d ns, %d RTT samples", r.Exchanges.Max(), r.RTT.Count())
			}
		})
	}
}

func TestCheckNamesWhatTheKernelHas(t *testing.T) {
	f := bulk(1)
	f.Congestion = "nosuch"
	err := New().Check(f)
	if fault.Of(err) != fault.Testbed || !strings.Contains(err.Error(), "reno") || fault.Advice(err) == "" {
		t.Errorf("status %d: %v", fault.Of(err), err)
	}
}
