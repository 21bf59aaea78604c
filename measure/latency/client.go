// SPDX-License-Identifier: Apache-2.0

package latency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"weir/measure/record"
	"weir/measure/websocket"
)

// ClientTest is one test on the side of the client.
type ClientTest struct {
	HTTP     *http.Client
	Base     url.URL                                // scheme and authority of the server
	UDP      net.Conn                               // a UDP socket that is connected to the server
	ID       string                                 // an access token replaces it
	Query    url.Values                             // metadata
	Duration time.Duration                          // of the server; 0 is the protocol's
	Progress func(received int, last time.Duration) // may be nil
}

const (
	maxResult   = 1 << 20 // bytes of a server's answer
	maxEchoes   = 2000
	kickoffTime = time.Second // time until the first datagram is repeated
)

// Measure runs the test: the server measures, this side echoes. It ends after at most twice
// Duration and Grace, and the time of two requests. The error of a server that refuses is a
// [*websocket.Refused].
func Measure(ctx context.Context, t ClientTest) (s record.LatencySummary, err error) {
	if t.Duration == 0 {
		t.Duration = Duration
	}
	var first Packet
	if err := t.get(ctx, AuthorizePath, &first); err != nil {
		return s, err
	}
	if first.ID == "" || first.Type != typeKickoff {
		return s, errors.New("the server authorized no measurement of latency1")
	}
	if err := t.echo(ctx, first); err != nil {
		return s, err
	}
	if err := t.get(ctx, ResultPath, &s); err != nil {
		return s, err
	}
	return s, verify(s)
}

// verify rejects results that contradict themselves.
func verify(s record.LatencySummary) error {
	received := 0
	for _, trip := range s.RoundTrips {
		if trip.RTT < 0 {
			return fmt.Errorf("the server reports the round-trip time %d µs", trip.RTT)
		}
		if !trip.Lost {
			received++
		}
	}
	if s.PacketsSent != len(s.RoundTrips) || s.PacketsReceived != received {
		return fmt.Errorf("the server reports %d datagrams sent and %d received, and %d round trips with %d echoes", s.PacketsSent, s.PacketsReceived, len(s.RoundTrips), received)
	}
	return nil
}

// get requests a document of the measurement.
func (t *ClientTest) get(ctx context.Context, path string, v any) error {
	u := t.Base
	query := url.Values{"mid": {t.ID}}
	for name, values := range t.Query {
		query[name] = values
	}
	u.Path, u.RawQuery = path, query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	response, err := t.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResult))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return &websocket.Refused{Status: response.StatusCode, RetryAfter: response.Header.Get("Retry-After"), Body: string(body)}
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s: the answer is no JSON document of latency1: %w", path, err)
	}
	return nil
}

// echo sends the first datagram and echoes those of the server, until its time is over.
func (t *ClientTest) echo(ctx context.Context, first Packet) error {
	kickoff, err := json.Marshal(first)
	if err != nil {
		return err
	}
	abort := context.AfterFunc(ctx, func() { _ = t.UDP.SetDeadline(time.Unix(1, 0)) })
	defer abort()
	end := time.Now().Add(t.Duration + Grace)
	buffer := make([]byte, maxDatagram+1)
	next := time.Time{} // of the kickoff
	for echoes := 0; echoes < maxEchoes && ctx.Err() == nil; {
		now := time.Now()
		if !now.Before(end) {
			break
		}
		wait := end
		if echoes == 0 {
			if !now.Before(next) {
				// The first datagram may be lost, or rejected by an ICMP error.
				_, _ = t.UDP.Write(kickoff)
				next = now.Add(kickoffTime)
			}
			wait = next
		}
		_ = t.UDP.SetReadDeadline(wait)
		if ctx.Err() != nil { // the new deadline may have replaced that of abort
			break
		}
		n, err := t.UDP.Read(buffer)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
				time.Sleep(time.Millisecond) // an ICMP error
			}
			continue
		}
		p, err := parse(buffer[:n])
		if err != nil || p.ID != first.ID || p.Type != typeProbe {
			continue
		}
		_, _ = t.UDP.Write(buffer[:n])
		if echoes++; echoes == 1 { // the server's time began after the client's
			end = time.Now().Add(t.Duration + Grace)
		}
		if t.Progress != nil {
			t.Progress(echoes, time.Duration(max(p.LastRTT, 0))*time.Microsecond)
		}
	}
	return ctx.Err()
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}
