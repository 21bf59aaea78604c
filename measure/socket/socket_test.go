// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"bytes"
	"io"
	"regexp"
	"testing"
	"time"

	"weir/kernel/testutil"
)

func TestReadingsOfASocket(t *testing.T) {
	a, b := testutil.TCPPair(t)
	payload := bytes.Repeat([]byte("x"), 10_000)
	if _, err := a.Write(payload); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, make([]byte, len(payload))); err != nil {
		t.Fatal(err)
	}
	s, err := Of(&Batch{Conn: b})
	if err != nil {
		t.Fatal(err)
	}
	tcp, bbr, err := s.Read(time.Now().Add(-time.Second))
	if err != nil || bbr == nil {
		t.Fatal(err)
	}
	if tcp.BytesReceived != 10_000 || tcp.State != 1 || tcp.SndMSS == 0 || tcp.ElapsedTime < 1e6 || tcp.MaxPacingRate != -1 {
		t.Errorf("%+v", tcp)
	}
	if err := s.SetCongestion("reno"); err != nil || s.Congestion() != "reno" {
		t.Errorf("reno: %v, now %s", err, s.Congestion())
	}
	if _, bbr, err := s.Read(time.Now()); err != nil || bbr.BW != 0 || bbr.MinRTT != 0 {
		t.Errorf("BBRInfo under reno: %+v, %v", bbr, err)
	}
	if err := s.SetCongestion("none"); err == nil {
		t.Error("an unknown congestion control is set")
	}
	_ = b.Close()
	if _, _, err := s.Read(time.Now()); err == nil {
		t.Error("a closed socket is read")
	}
}

func TestUUIDsAreUnique(t *testing.T) {
	form := regexp.MustCompile(`^[A-Za-z0-9.-]+_[0-9]{10}_[0-9A-F]{16}$`)
	seen := map[string]bool{}
	for range 3 {
		_, b := testutil.TCPPair(t)
		s, err := Of(b)
		if err != nil {
			t.Fatal(err)
		}
		first, err := s.UUID()
		again, _ := s.UUID()
		if err != nil || !form.MatchString(first) || first != again || seen[first] {
			t.Errorf("%q, then %q: %v", first, again, err)
		}
		seen[first] = true
	}
}

func TestBootTimes(t *testing.T) {
	if got, err := bootTime("cpu 1 2\nbtime 1666977535\nprocesses 3\n"); err != nil || got != 1666977535 {
		t.Errorf("%d, %v", got, err)
	}
	for _, text := range []string{"", "cpu 1 2\n", "btime soon\n"} {
		if _, err := bootTime(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if got := plain("host_1 ü.example"); got != "host-1--.example" {
		t.Errorf("host name %q", got)
	}
}

func TestABatchJoinsWrites(t *testing.T) {
	a, b := testutil.TCPPair(t)
	batch := &Batch{Conn: a}
	whole := bytes.Repeat([]byte("0123456789"), 20_000) // more than the buffer
	go func() {
		_, _ = batch.Write(whole[:5]) // passes before Start
		batch.Start()
		_, _ = batch.Write(whole[5:10])
		_, _ = batch.Write(whole[10:70_000])
		_, _ = batch.Write(whole[70_000:])
		_ = batch.Flush()
		_ = batch.Flush()
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || !bytes.Equal(got, whole) {
		t.Errorf("%d bytes of %d, %v", len(got), len(whole), err)
	}
}

func TestASeriesEnds(t *testing.T) {
	a, _ := testutil.TCPPair(t)
	s, err := Of(a)
	if err != nil {
		t.Fatal(err)
	}
	var sampler Sampler
	for range 2 { // the goroutine starts again
		series := sampler.Add(s, true, time.Now())
		testutil.Eventually(t, time.Minute, "three readings", func() bool { return series.length() >= 3 })
		samples, _ := series.Stop()
		n := len(samples.RTT)
		if n < 3 || n != len(samples.ElapsedTime) || n != len(samples.DeliveryRate) || n != len(samples.NotsentBytes) {
			t.Errorf("%+v", samples)
		}
	}
}

func (s *Series) length() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.samples.RTT)
}
