// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/kernel/testutil"
	"weir/measure/client"
	"weir/measure/latency"
	"weir/measure/record"
)

// A site without bulk tests waits for a latency test, and until its client has the result.
func TestADrainLeavesLatencyTestsWhole(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := startLatency(t)
	ended := make(chan error, 1)
	go func() {
		_, err := client.Run(t.Context(), client.Options{
			Server: client.Server{Host: "127.0.0.1"}, Address: s.ClearAddr(), Test: client.Latency, LatencyPort: s.LatencyAddr().Port(), Version: "9", Duration: time.Second,
		})
		ended <- err
	}()
	testutil.Eventually(t, time.Minute, "the test begins", func() bool {
		return strings.Contains(s.scrape(t), `weir_measure_datagrams_total{result="echo"}`)
	})
	s.stop()
	if err := <-ended; err != nil {
		t.Errorf("the client has no result: %v", err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	var r record.Latency
	if text := s.store.texts["latency1"]; len(text) != 1 {
		t.Errorf("%d records", len(text))
	} else if err := json.Unmarshal([]byte(text[0]), &r); err != nil || r.EndTime.Sub(r.StartTime) < time.Second {
		t.Errorf("the record of a test that was cut: %+v, %v", r, err)
	}
}

// A test beyond the drain's time is ended, and its record is stored before Run returns.
func TestADrainStoresTheTestsThatItEnds(t *testing.T) {
	s := start(t, func(c *Config) { c.TestDuration, c.drainTime = time.Minute, time.Millisecond })
	s.store.pause = 100 * time.Millisecond
	s.uploader(t)
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	if got := s.store.ndt7(t); len(got) != 1 {
		t.Errorf("%d records of the ended test", len(got))
	}
}

// Latency tests have a gate of their own.
func TestNearestOfLatencyAsksItsOwnGate(t *testing.T) {
	s := start(t, func(c *Config) {
		c.Latency, c.MaxTests, c.TestDuration = "127.0.0.1:0", 1, 20*time.Second
	})
	s.uploader(t)
	for _, c := range []struct {
		path   string
		status int
	}{{"/v2/nearest/msak/latency1", 200}, {"/v2/nearest/ndt/ndt7", 429}} {
		if status, _, body := s.get(t, c.path); status != c.status {
			t.Errorf("a full bulk gate: %s answers %d %v", c.path, status, body)
		}
	}
	for i := range latencyShare {
		if status, _, _ := s.get(t, latency.AuthorizePath+"?mid="+string(rune('a'+i))); status != 200 { // a share, and more
			break
		}
	}
	if status, _, body := s.get(t, "/v2/nearest/msak/latency1"); status != 429 {
		t.Errorf("a full latency gate: %d %v", status, body)
	}
}
