// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"weir/kernel/testutil"
	"weir/measure/archive"
	"weir/measure/client"
	"weir/measure/msak"
	"weir/measure/record"
)

// throughput returns the stored records of throughput1.
func (m *memory) throughput(t *testing.T) (all []record.Throughput) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range m.texts["throughput1"] {
		var r record.Throughput
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := errors.Join(decoder.Decode(&r), archive.Fit("throughput1", []byte(text))); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// streamPeer opens a stream of msak with an independent client.
func (s *site) streamPeer(t *testing.T, path string) *gorilla.Conn {
	t.Helper()
	return s.dial(t, msak.Subprotocol, path)
}

// readStream reads until the end: the payload, the server's messages and its Close.
func readStream(t *testing.T, c *gorilla.Conn) (binary, text int, all []record.WireMeasurement, closed *gorilla.CloseError) {
	t.Helper()
	for {
		kind, b, err := c.ReadMessage()
		if err != nil {
			if !errors.As(err, &closed) {
				t.Errorf("the connection ended without Close: %v", err)
			}
			return binary, text, all, closed
		}
		if kind == gorilla.BinaryMessage {
			binary += len(b)
			continue
		}
		text += len(b)
		var w record.WireMeasurement
		if err := json.Unmarshal(b, &w); err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
}

func TestStreamsInClearAndOverTLS(t *testing.T) {
	s := start(t, nil)
	for _, secure := range []bool{false, true} {
		for _, direction := range []record.Direction{record.Download, record.Upload} {
			s.store.texts = nil
			o := client.Options{
				Server: client.Server{Host: "127.0.0.1", TLS: secure}, Address: s.ClearAddr(), Test: client.MSAK, Direction: direction, Streams: 3,
				Congestion: "reno", Insecure: true, Version: "9", Duration: time.Second,
			}
			if secure {
				o.Address = s.SecureAddr()
			}
			got, err := client.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			records, qualities := s.store.throughput(t), s.store.quality(t)
			if len(records) != 3 || len(qualities) != 3 || len(got.StreamRates) != 3 || got.Congestion != "reno" || got.MinRTT == nil {
				t.Fatalf("TLS %v, %s: %d records, %+v", secure, direction, len(records), got)
			}
			var payload uint64
			uuids := map[string]bool{}
			for i, r := range records {
				q := qualities[i]
				// Both ends have the same duration, so that a client may end an upload first.
				ended := q.Outcome == "complete" || q.Outcome == "short" && direction == record.Upload
				if r.MeasurementID != got.MeasurementID || r.CCAlgorithm != "reno" || r.Direction != direction || q.Protocol != "throughput1" || !ended {
					t.Errorf("TLS %v, %s: record %+v, outcome %s", secure, direction, r, q.Outcome)
				}
				if len(r.ClientMeasurements) == 0 || r.ClientOptions[0] != (record.NameValue{Name: "streams", Value: "3"}) || r.ClientMetadata[0].Value != "weir" {
					t.Errorf("TLS %v, %s: options %v, metadata %v, %d client measurements", secure, direction, r.ClientOptions, r.ClientMetadata, len(r.ClientMeasurements))
				}
				last := r.ServerMeasurements[len(r.ServerMeasurements)-1]
				app, network := last.Application.BytesSent, last.Network.BytesSent
				if direction == record.Upload {
					app, network = last.Application.BytesReceived, last.Network.BytesReceived
				}
				if app == 0 || network < app || last.TCPInfo == nil || last.BBRInfo == nil {
					t.Errorf("TLS %v, %s: the application moved %d bytes, the socket %d", secure, direction, app, network)
				}
				payload += q.Payload
				uuids[r.UUID] = true
			}
			if len(uuids) != 3 || payload != got.Payload && direction == record.Download {
				t.Errorf("TLS %v, %s: UUIDs %v, the server counted %d bytes, the client %d", secure, direction, uuids, payload, got.Payload)
			}
			for i, stream := range got.Streams {
				if stream.Err != nil || stream.Close != 1000 {
					t.Errorf("TLS %v, %s: stream %d ended with %d, %v", secure, direction, i, stream.Close, stream.Err)
				}
			}
		}
	}
}

func TestAStreamOfAnIndependentClient(t *testing.T) {
	s := start(t, nil)
	c := s.streamPeer(t, msak.DownloadPath+"?mid=m&streams=1&duration=600&cc=reno&client_name=peer")
	c.SetReadLimit(1 << 20)
	binary, _, all, closed := readStream(t, c)
	if closed == nil || closed.Code != 1000 || binary == 0 || len(all) == 0 {
		t.Fatalf("%d bytes, %d messages, %v", binary, len(all), closed)
	}
	first, last := all[0], all[len(all)-1]
	if first.CC != "reno" || first.UUID == "" || first.LocalAddr != s.ClearAddr().String() || first.RemoteAddr != c.LocalAddr().String() {
		t.Errorf("first message %+v", first)
	}
	for _, w := range all[1:] {
		if w.CC != "" || w.UUID != "" || w.LocalAddr != "" || w.RemoteAddr != "" || w.TCPInfo == nil || w.BBRInfo == nil || w.ElapsedTime <= 0 {
			t.Errorf("later message %+v", w)
		}
	}
	if last.Application.BytesSent < int64(binary) || last.TCPInfo.ElapsedTime < last.ElapsedTime {
		t.Errorf("last message %+v of %d bytes", last, binary)
	}
}

// The payload of a limited download is exact: binary messages and the text between them.
func TestALimitOfBytesIsExact(t *testing.T) {
	s := start(t, nil)
	for _, limit := range []int{1, 1000, 1024, 1025, 3 << 20} {
		s.store.texts = nil
		c := s.streamPeer(t, msak.DownloadPath+"?mid=m&streams=1&duration=20000&bytes="+strconv.Itoa(limit))
		binary, text, all, closed := readStream(t, c)
		if closed == nil || closed.Code != 1000 {
			t.Fatalf("%d bytes: closed by %v", limit, closed)
		}
		final, err := json.Marshal(all[len(all)-1])
		if err != nil {
			t.Fatal(err)
		}
		if got := binary + text - len(final); got != limit {
			t.Errorf("%d bytes: %d binary and %d text, %d before the last message", limit, binary, text, got)
		}
		if q := s.store.quality(t); len(q) != 1 || q[0].Outcome != "complete" {
			t.Errorf("%d bytes: %+v", limit, q)
		}
	}
	up := s.streamPeer(t, msak.UploadPath+"?mid=m&streams=1&duration=20000&bytes=100000")
	for range 100 {
		if err := up.WriteMessage(gorilla.BinaryMessage, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, all, closed := readStream(t, up); closed == nil || closed.Code != 1000 || all[len(all)-1].Application.BytesReceived != 100_000 {
		t.Errorf("upload: %+v, %v", all, closed)
	}
}

func TestHostileStreamsGetAReason(t *testing.T) {
	s := start(t, nil)
	const query = "?mid=m&streams=1&duration=20000"
	text := func(b string) func(*gorilla.Conn) error {
		return func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.TextMessage, []byte(b)) }
	}
	for _, c := range []struct {
		name, path string
		do         func(*gorilla.Conn) error
		code       int
	}{
		{"text that is no JSON", msak.UploadPath, text("hello"), 1007},
		{"JSON that is no measurement", msak.DownloadPath, text(`{"Application":{"BytesSent":"many"}}`), 1007},
		{"a number beyond 64 bits", msak.UploadPath, text(`{"ElapsedTime":1e300}`), 1007},
		{"text of 64 KiB and a byte", msak.UploadPath, text(`{"CC":"` + strings.Repeat("x", 64<<10) + `"}`), 1009},
		{"binary in a download", msak.DownloadPath, func(c *gorilla.Conn) error { return c.WriteMessage(gorilla.BinaryMessage, []byte("x")) }, 1003},
		{"1,001 texts", msak.UploadPath, func(c *gorilla.Conn) error {
			for range 1001 {
				if err := text("{}")(c); err != nil {
					return err
				}
			}
			return nil
		}, 1008},
	} {
		conn := s.streamPeer(t, c.path+query)
		if err := c.do(conn); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if _, _, _, closed := readStream(t, conn); closed == nil || closed.Code != c.code || closed.Text == "" {
			t.Errorf("%s: closed by %v, want %d and a reason", c.name, closed, c.code)
		}
		_ = conn.Close()
	}
	silent := s.streamPeer(t, msak.UploadPath+"?mid=m&streams=1&duration=300")
	if _, _, _, closed := readStream(t, silent); closed == nil || closed.Code != 1008 {
		t.Errorf("an upload without payload is closed by %v", closed)
	}
	testutil.Eventually(t, time.Minute, "all streams end", func() bool { tests, _, _ := s.gate.Running(); return tests == 0 })
}

func TestWrongStreamsGetAProblemDocument(t *testing.T) {
	s := start(t, nil)
	for query, reason := range map[string]string{"": "mid", "?mid=m": "streams", "?mid=m&streams=1&cc=vegas": "vegas", "?mid=m&streams=1&duration=soon": "duration"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.ClearAddr().String()+msak.UploadPath+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": msak.Subprotocol,
		} {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != 400 || !strings.Contains(string(body), reason) {
			t.Errorf("%s: %d %s", query, response.StatusCode, body)
		}
	}
	if _, _, body := s.get(t, "/v2/nearest/msak/throughput1"); !strings.Contains(fmt.Sprint(body), "ws:///throughput/v1/download") {
		t.Errorf("/v2/nearest/msak/throughput1 answers %v", body)
	}
}
