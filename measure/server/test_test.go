// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"weir/measure/record"
)

func TestBothDirectionsInClearAndOverTLS(t *testing.T) {
	s := start(t, nil)
	for _, secure := range []bool{false, true} {
		for _, direction := range []record.Direction{record.Download, record.Upload} {
			s.store.texts = nil
			got := s.run(t, secure, direction)
			if got.Streams[0].Err != nil || got.Streams[0].Close != 1000 || got.Payload == 0 || got.UUID == "" || got.MinRTT == nil {
				t.Errorf("TLS %v, %s: %+v", secure, direction, got)
			}
			if got.Valid {
				t.Errorf("TLS %v, %s: a figure of the loopback device counts", secure, direction)
			}
			checkRecord(t, s.store, got.UUID, direction, got.Payload)
		}
	}
}

// checkRecord compares the stored records with the client's result.
func checkRecord(t *testing.T, m *memory, uuid string, direction record.Direction, payload uint64) {
	t.Helper()
	records, qualities := m.ndt7(t), m.quality(t)
	if len(records) != 1 || len(qualities) != 1 {
		t.Fatalf("%s: %d ndt7 and %d quality1 records, want 1 each", direction, len(records), len(qualities))
	}
	r, q := records[0], qualities[0]
	archival, other := r.Download, r.Upload
	if direction == record.Upload {
		archival, other = other, archival
	}
	if archival == nil || other != nil {
		t.Fatalf("%s: the record has the other direction: %+v", direction, r)
	}
	if archival.UUID != uuid || q.UUID != uuid || r.ClientIP != "127.0.0.1" || r.ServerPort == 0 || r.Version != "1.2.3" || !r.EndTime.After(r.StartTime) {
		t.Errorf("%s: record %+v of %s", direction, r, uuid)
	}
	last := archival.ServerMeasurements[len(archival.ServerMeasurements)-1]
	if last.AppInfo == nil || last.ConnectionInfo == nil || last.BBRInfo == nil || last.TCPInfo == nil {
		t.Fatalf("%s: the last measurement lacks a member: %+v", direction, last)
	}
	// Both ends count the same payload: all sent bytes arrived.
	if direction == record.Upload && last.AppInfo.NumBytes != int64(payload) || direction == record.Download && q.Payload != payload {
		t.Errorf("%s: the server counted %d bytes at its last measurement and %d in all, the client %d", direction, last.AppInfo.NumBytes, q.Payload, payload)
	}
	if moved := max(last.TCPInfo.BytesReceived, last.TCPInfo.BytesAcked); moved == 0 || last.TCPInfo.ElapsedTime <= 0 {
		t.Errorf("%s: TCPInfo %+v", direction, last.TCPInfo)
	}
	if n := len(q.Samples.ElapsedTime); n == 0 || n != len(q.Samples.RTT) || n != len(q.Samples.Bytes) {
		t.Errorf("%s: the lists of samples have different lengths: %+v", direction, q.Samples)
	}
	if q.Outcome != "complete" || q.CongestionControl == "" {
		t.Errorf("%s: outcome %q under %q", direction, q.Outcome, q.CongestionControl)
	}
	if want := (record.NameValue{Name: "client_name", Value: "weir"}); len(archival.ClientMetadata) == 0 || archival.ClientMetadata[0] != want {
		t.Errorf("%s: client metadata %+v", direction, archival.ClientMetadata)
	}
	if want := (record.NameValue{Name: "congestion_control", Value: q.CongestionControl}); len(archival.ServerMetadata) != 1 || archival.ServerMetadata[0] != want {
		t.Errorf("%s: server metadata %+v", direction, archival.ServerMetadata)
	}
}
