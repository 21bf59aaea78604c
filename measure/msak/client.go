// SPDX-License-Identifier: Apache-2.0

package msak

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"weir/measure/record"
	"weir/measure/session"
)

// Query returns the query string of a client's request. Duration is the time of each stream.
func (o Options) Query() string {
	values := url.Values{"mid": {o.MeasurementID}, "streams": {strconv.Itoa(o.Streams)}, "duration": {strconv.FormatInt(o.Duration.Milliseconds(), 10)}}
	if o.Congestion != "" {
		values.Set("cc", o.Congestion)
	}
	if o.Bytes > 0 {
		values.Set("bytes", strconv.FormatUint(o.Bytes, 10))
	}
	for _, m := range o.Metadata {
		values.Set(m.Name, m.Value)
	}
	return values.Encode()
}

// Measure runs a stream on the side of the client and closes the connection. The server ends a
// download; it ends after at most o.Duration, session.CloseTime and a second.
func Measure(ctx context.Context, t session.ClientTest, o Options) session.ClientResult {
	t.Duration, t.Limit, t.FirstMessage, t.Pace, t.Interleave = o.Duration, o.Bytes, firstMessage, pace, true
	own := reader{t.Socket, t.Socket.Counters()}
	t.Encode = func(_ record.Measurement, m session.Moment) ([]byte, error) {
		w, err := own.wire(m, &session.Test{Conn: t.Conn})
		if err != nil {
			return nil, err
		}
		return json.Marshal(w)
	}
	var info *record.ConnectionInfo // of the server's first message
	var congestion string
	if t.Direction == record.Upload {
		congestion = t.Socket.Congestion()
	}
	t.Decode = func(text []byte) (m record.Measurement, err error) {
		var w record.WireMeasurement
		if err := json.Unmarshal(text, &w); err != nil {
			return m, err
		}
		if w.UUID != "" || w.RemoteAddr != "" {
			info = &record.ConnectionInfo{Client: w.RemoteAddr, Server: w.LocalAddr, UUID: w.UUID}
			if t.Direction == record.Download && congestionName.MatchString(w.CC) {
				congestion = w.CC
			}
		}
		return measurement(w.StreamMeasurement, t.Direction, info), nil
	}
	result := session.Measure(ctx, t) // no call of Decode after it returns
	result.Congestion = congestion
	return result
}

// measurement converts the server's measurement to the form of ndt7.
func measurement(w record.StreamMeasurement, d record.Direction, info *record.ConnectionInfo) record.Measurement {
	bytes := w.Application.BytesReceived
	if d == record.Download {
		bytes = w.Application.BytesSent
	}
	m := record.Measurement{AppInfo: &record.AppInfo{NumBytes: bytes, ElapsedTime: w.ElapsedTime}, ConnectionInfo: info, TCPInfo: w.TCPInfo}
	if w.BBRInfo != nil {
		m.BBRInfo = &record.BBRInfo{BW: w.BBRInfo.BW, MinRTT: w.BBRInfo.MinRTT, PacingGain: w.BBRInfo.PacingGain, CwndGain: w.BBRInfo.CwndGain, ElapsedTime: w.ElapsedTime}
	}
	return m
}
