// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"weir/kernel/testutil"
	"weir/measure/ndt7"
	"weir/measure/record"
)

// peer opens a test of ndt7 with an independent client.
func (s *site) peer(t *testing.T, path string) *gorilla.Conn {
	t.Helper()
	return s.dial(t, ndt7.Subprotocol, path)
}

// dial opens a WebSocket with an independent client.
func (s *site) dial(t *testing.T, subprotocol, path string) *gorilla.Conn {
	t.Helper()
	dialer := gorilla.Dialer{Subprotocols: []string{subprotocol}}
	c, _, err := dialer.Dial("ws://"+s.ClearAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// drain reads until the end and returns the server's measurements and its Close.
func drain(t *testing.T, c *gorilla.Conn) (all []record.Measurement, closed *gorilla.CloseError) {
	t.Helper()
	for {
		kind, b, err := c.ReadMessage()
		if err != nil {
			if !errors.As(err, &closed) {
				t.Errorf("the connection ended without Close: %v", err)
			}
			return all, closed
		}
		if kind == gorilla.TextMessage {
			var m record.Measurement
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
	}
}

// uploader opens an upload and sends a byte of payload.
func (s *site) uploader(t *testing.T) *gorilla.Conn {
	t.Helper()
	c := s.peer(t, ndt7.UploadPath)
	if err := c.WriteMessage(gorilla.BinaryMessage, []byte("x")); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnIndependentClientRunsBothTests(t *testing.T) {
	s := start(t, nil)
	// The official Go client reads messages of at most 1 MiB.
	down := s.peer(t, ndt7.DownloadPath+"?client_name=peer&early_exit=250")
	down.SetReadLimit(1 << 20)
	all, closed := drain(t, down)
	if closed == nil || closed.Code != 1000 || len(all) == 0 {
		t.Fatalf("%d measurements, %v", len(all), closed)
	}
	for _, m := range all {
		if m.AppInfo == nil || m.ConnectionInfo == nil || m.ConnectionInfo.UUID == "" || m.BBRInfo == nil || m.TCPInfo == nil {
			t.Errorf("a measurement lacks a member: %+v", m)
		}
	}
	up := s.peer(t, ndt7.UploadPath)
	for range 16 {
		if err := up.WriteMessage(gorilla.BinaryMessage, make([]byte, 1<<18)); err != nil {
			t.Fatal(err)
		}
	}
	if err := up.WriteJSON(record.Measurement{AppInfo: &record.AppInfo{NumBytes: 16 << 18, ElapsedTime: 1}, Origin: "client"}); err != nil {
		t.Fatal(err)
	}
	all, closed = drain(t, up)
	if closed == nil || closed.Code != 1000 {
		t.Fatalf("upload: %v", closed)
	}
	if last := all[len(all)-1].AppInfo.NumBytes; last < 16<<18 || last > 16<<18+200 {
		t.Errorf("the server counted %d bytes of 4 MiB and a text", last)
	}
	records := s.store.ndt7(t)
	if got := records[1].Upload.ClientMeasurements; len(got) != 1 || got[0].AppInfo.NumBytes != 16<<18 {
		t.Errorf("client measurements %+v", got)
	}
}

func TestHostileClientsGetAReason(t *testing.T) {
	s := start(t, func(c *Config) { c.TestDuration = 20 * time.Second }) // violations end the tests, not time
	text := func(b string) func(*gorilla.Conn) error {
		return func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.TextMessage, []byte(b)) }
	}
	for _, c := range []struct {
		name, path string
		do         func(*gorilla.Conn) error
		code       int
	}{
		{"text that is no JSON", ndt7.UploadPath, text("hello"), 1007},
		{"JSON that is no measurement", ndt7.UploadPath, text(`{"AppInfo":{"NumBytes":1e300}}`), 1007},
		{"text of 64 KiB and a byte", ndt7.UploadPath, text(`"` + strings.Repeat("x", 64<<10-1) + `"`), 1009},
		{"binary in a download", ndt7.DownloadPath, func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.BinaryMessage, []byte("x")) }, 1003},
		{"1,001 texts", ndt7.UploadPath, func(c *gorilla.Conn) error {
			for range 1001 {
				if err := text("{}")(c); err != nil {
					return err
				}
			}
			return nil
		}, 1008},
		{"1,001 Pings", ndt7.UploadPath, func(c *gorilla.Conn) error {
			for range 1001 {
				if err := c.WriteMessage(gorilla.PingMessage, nil); err != nil {
					return err
				}
			}
			return nil
		}, 1008},
		{"a claim of 2^63-1 bytes", ndt7.UploadPath, func(c *gorilla.Conn) error {
			_, err := c.NetConn().Write([]byte{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4})
			return err
		}, 1009},
		{"a claim of 2^63 bytes", ndt7.UploadPath, func(c *gorilla.Conn) error {
			_, err := c.NetConn().Write([]byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4})
			return err
		}, 1002},
		{"an unmasked frame", ndt7.UploadPath, func(c *gorilla.Conn) error {
			_, err := c.NetConn().Write([]byte{0x82, 1, 'x'})
			return err
		}, 1002},
	} {
		conn := s.peer(t, c.path)
		if err := c.do(conn); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if _, closed := drain(t, conn); closed == nil || closed.Code != c.code || closed.Text == "" {
			t.Errorf("%s: closed by %v, want %d and a reason", c.name, closed, c.code)
		}
		_ = conn.Close()
	}
	testutil.Eventually(t, time.Minute, "all tests end", func() bool { tests, _, _ := s.gate.Running(); return tests == 0 })
}

func TestClientMeasurementsAreBounded(t *testing.T) {
	s := start(t, nil)
	c := s.peer(t, ndt7.UploadPath)
	long := strings.Repeat("x", 60<<10)
	if err := c.WriteMessage(gorilla.TextMessage, []byte(`{"Origin":"`+long)); err != nil {
		t.Fatal(err)
	}
	_, closed := drain(t, c)
	if closed == nil || closed.Code == 1000 {
		t.Errorf("text that is no JSON: %v", closed)
	}
	c = s.peer(t, ndt7.UploadPath)
	if err := c.WriteMessage(gorilla.TextMessage, []byte(`{"Origin":"`+long+`","ConnectionInfo":{"Client":"forged"},"AppInfo":{"NumBytes":5}}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteMessage(gorilla.BinaryMessage, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, closed = drain(t, c); closed == nil || closed.Code != 1000 {
		t.Fatalf("closed by %v", closed)
	}
	records := s.store.ndt7(t)
	got := records[len(records)-1].Upload.ClientMeasurements
	if len(got) != 1 || got[0].Origin != "" || got[0].ConnectionInfo != nil || got[0].AppInfo.NumBytes != 5 {
		t.Errorf("stored %+v", got)
	}
}

// A client that reads nothing, and one that leaves, end in time and leave a record.
func TestSilentClientsEnd(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t, func(c *Config) { c.TestDuration = 100 * time.Millisecond })
	for _, path := range []string{ndt7.DownloadPath, ndt7.UploadPath} {
		s.peer(t, path) // reads and writes nothing
	}
	gone := s.peer(t, ndt7.UploadPath)
	_ = gone.NetConn().Close()
	testutil.Eventually(t, time.Minute, "three records", func() bool { return len(s.store.ndt7(t)) == 3 })
	testutil.Eventually(t, time.Minute, "all tests end", func() bool { tests, _, _ := s.gate.Running(); return tests == 0 })
}

// A client that stops in the middle leaves a record that is not complete: its bytes over the whole
// time are no rate.
func TestClientsThatStopAreNotComplete(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t, func(c *Config) { c.TestDuration, c.TestSilence = 4*time.Second, 2*time.Second })
	s.peer(t, ndt7.DownloadPath) // reads nothing
	up := s.uploader(t)
	go func() { // answers Pings
		for {
			if _, _, err := up.ReadMessage(); err != nil {
				return
			}
		}
	}()
	testutil.Eventually(t, time.Minute, "two records", func() bool { return len(s.store.quality(t)) == 2 })
	for _, q := range s.store.quality(t) {
		if !strings.HasPrefix(q.Outcome, "no payload moved in the last") {
			t.Errorf("%s: outcome %q", q.Direction, q.Outcome)
		}
	}
}

// An upload without payload ends before its time, is not complete, and leaves its place to others.
func TestUploadsWithoutPayloadEnd(t *testing.T) {
	t.Parallel() // it waits most of the time
	// The time of the test is over only after its end.
	s := start(t, func(c *Config) { c.TestDuration, c.TestSilence = time.Minute, 100*time.Millisecond })
	for name, send := range map[string]func(*gorilla.Conn) error{
		"nothing":      func(*gorilla.Conn) error { return nil },
		"empty frames": func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.BinaryMessage, nil) },
		"text alone":   func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.TextMessage, []byte("{}")) },
	} {
		s.store.texts = nil
		c := s.peer(t, ndt7.UploadPath)
		if err := send(c); err != nil {
			t.Fatal(err)
		}
		const reason = "the client sent no payload"
		if _, closed := drain(t, c); closed == nil || closed.Code != 1008 || closed.Text != reason {
			t.Errorf("%s: closed by %v", name, closed)
		}
		if q := s.store.quality(t); len(q) != 1 || q[0].Outcome != reason {
			t.Errorf("%s: stored %+v", name, q)
		}
	}
	s.peer(t, ndt7.UploadPath) // reads and sends nothing, not even a Close frame
	testutil.Eventually(t, time.Minute, "all tests fail", func() bool {
		return strings.Contains(s.scrape(t), `weir_measure_tests_total{direction="upload",outcome="failed",protocol="ndt7"} 4`)
	})
	testutil.Eventually(t, time.Minute, "all tests end", func() bool { tests, _, _ := s.gate.Running(); return tests == 0 })
}
