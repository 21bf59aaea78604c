// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"weir/measure/msak"
	"weir/measure/ndt7"
	"weir/measure/record"
	"weir/measure/session"
)

// A client's texts are kept up to a bound; more of them are no violation.
func TestTextsOfAClientAreBounded(t *testing.T) {
	s := start(t, func(c *Config) { c.TestDuration = 20 * time.Second })
	for name, c := range map[string]*gorilla.Conn{
		"ndt7": s.peer(t, ndt7.UploadPath), "throughput1": s.streamPeer(t, msak.UploadPath+"?mid=m&streams=1&duration=20000"),
	} {
		for range 900 {
			if err := c.WriteMessage(gorilla.TextMessage, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, "")); err != nil {
			t.Fatal(err)
		}
		if _, closed := drain(t, c); closed == nil || closed.Code != 1000 {
			t.Errorf("%s: closed by %v", name, closed)
		}
	}
	if got := len(s.store.ndt7(t)[0].Upload.ClientMeasurements); got != session.MaxKept {
		t.Errorf("ndt7: %d texts are kept", got)
	}
	if got := len(s.store.throughput(t)[0].ClientMeasurements); got != session.MaxKept {
		t.Errorf("throughput1: %d texts are kept", got)
	}
}

// The records of the longest stream fit into its space: a server's text each 100 ms, a client's up
// to the bound, and a sample each 10 ms, all with the largest numbers of ten digits.
func TestTheSpaceHoldsTheLargestStream(t *testing.T) {
	measurement := record.StreamMeasurement{TCPInfo: &record.TCPInfo{}, BBRInfo: &record.BBRState{}}
	fill(reflect.ValueOf(&measurement).Elem())
	v := record.Throughput{
		ServerMeasurements: make([]record.StreamMeasurement, int(msak.LongestDuration/(100*time.Millisecond))), ClientMeasurements: make([]record.StreamMeasurement, session.MaxKept),
	}
	for _, list := range [][]record.StreamMeasurement{v.ServerMeasurements, v.ClientMeasurements} {
		for i := range list {
			list[i] = measurement
		}
	}
	whole, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	one, err := json.Marshal(measurement)
	if err != nil {
		t.Fatal(err)
	}
	const samples = int(msak.MaxDuration/(10*time.Millisecond)) * 7 * 11 // seven lists, ten digits and a comma
	t.Logf("%d bytes of measurements of %d bytes, %d bytes of samples", len(whole), len(one), samples)
	if total := len(whole) + samples; total > bulkSpace {
		t.Errorf("%d bytes, the space is %d", total, bulkSpace)
	}
}

// fill sets numbers to ten digits.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Pointer:
			if !f.IsNil() {
				fill(f.Elem())
			}
		case reflect.Struct:
			fill(f)
		case reflect.Int64, reflect.Int:
			f.SetInt(math.MaxInt32)
		case reflect.Uint32, reflect.Uint64:
			f.SetUint(math.MaxInt32)
		}
	}
}
