// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"weir/internal/fault"
	"weir/measure/websocket"
)

// Busy is the error of a server that runs no further test now.
type Busy struct {
	After time.Duration // until the server may have a place; 0 if it did not say so
	error
}

func (b *Busy) Unwrap() error { return b.error }

// rejection returns the reason of a server that did not upgrade, from its problem document if it
// has one (RFC 9457).
func rejection(r *websocket.Refused, t Test) error {
	var problem struct{ Title, Detail string }
	reason := r.Error()
	if json.Unmarshal([]byte(r.Body), &problem) == nil && problem.Detail != "" {
		reason += ": " + problem.Detail
	}
	if r.Status == http.StatusUnauthorized {
		return fault.New(fault.Failed, "give a valid access token with --token-file", "%s", reason)
	}
	if r.Status != http.StatusTooManyRequests && r.Status != http.StatusServiceUnavailable {
		return fault.New(fault.Failed, "check that the server runs "+string(t), "%s", reason)
	}
	busy := &Busy{}
	try := "try again later, or use another server"
	if seconds, err := strconv.Atoi(r.RetryAfter); err == nil && seconds > 0 && seconds < 86400 {
		busy.After = time.Duration(seconds) * time.Second
		try = "try again after " + busy.After.String()
	}
	busy.error = fault.New(fault.Failed, try, "%s", reason)
	return busy
}

func controlFunc(do func(fd int) error) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) error {
		var failed error
		if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
			return err
		}
		return failed
	}
}
