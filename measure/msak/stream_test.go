// SPDX-License-Identifier: Apache-2.0

package msak

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/measure/archive"
	"weir/measure/record"
)

// FuzzClientMeasurement decodes text of clients; every accepted one fits the archive's schema.
func FuzzClientMeasurement(f *testing.F) {
	f.Add([]byte(`{"CC":"bbr","UUID":"u","LocalAddr":"a","RemoteAddr":"b","Application":{"BytesSent":1},"Network":{"BytesReceived":2},"ElapsedTime":3,"BBRInfo":{"BW":1,"MinRTT":2,"PacingGain":3,"CwndGain":4},"TCPInfo":{"State":1,"RTT":5,"ElapsedTime":6}}`))
	f.Add([]byte(`{"Application":null,"TCPInfo":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r run
		if r.take(text) != nil {
			return
		}
		if len(r.congestion) > 15 || len(r.client) != 1 {
			t.Fatalf("%q: congestion control %q, %d measurements", text, r.congestion, len(r.client))
		}
		stored, err := json.Marshal(record.Throughput{CCAlgorithm: r.congestion, ClientMeasurements: r.client})
		if err == nil {
			err = archive.Fit("throughput1", stored)
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func TestACongestionControlIsAName(t *testing.T) {
	for text, want := range map[string]string{
		`{"CC":"cubic"}`: "cubic", `{"CC":"bbr2"}`: "bbr2", `{"CC":"` + strings.Repeat("x", 16) + `"}`: "", `{"CC":"<b>"}`: "", `{}`: "",
	} {
		var r run
		if err := r.take([]byte(text)); err != nil || r.congestion != want {
			t.Errorf("%s: %q, %v", text, r.congestion, err)
		}
	}
}

func TestTheServersCountIsTheReceivers(t *testing.T) {
	w := record.StreamMeasurement{Application: record.ByteCounters{BytesSent: 10, BytesReceived: 20}, ElapsedTime: 30, BBRInfo: &record.BBRState{BW: 40}}
	if m := measurement(w, record.Upload, nil); m.AppInfo.NumBytes != 20 || m.AppInfo.ElapsedTime != 30 || m.BBRInfo.BW != 40 {
		t.Errorf("upload: %+v", m)
	}
	if m := measurement(w, record.Download, nil); m.AppInfo.NumBytes != 10 {
		t.Errorf("download: %+v", m)
	}
}
