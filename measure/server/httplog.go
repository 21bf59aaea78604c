// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
)

// httpLog takes the lines of net/http: panics of handlers and errors of Accept are errors of this
// site. Failed handshakes are debug messages, because scanners would fill the log.
type httpLog struct{ log *slog.Logger }

func (l httpLog) Write(line []byte) (int, error) {
	level := slog.LevelError
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, strings.TrimSpace(string(line)))
	return len(line), nil
}
