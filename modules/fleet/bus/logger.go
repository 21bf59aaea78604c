// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// maxMessages bounds the logged messages of a second: each rejected message of a client is one.
const maxMessages = 10

// logger passes the server's warnings and errors to slog, and counts those above maxMessages.
type logger struct {
	log     *slog.Logger
	mu      sync.Mutex // guards the rest
	second  int64
	n       int
	skipped int
}

// admit reports whether a message is logged. skipped is the number of omitted messages of earlier
// seconds.
func (l *logger) admit(now time.Time) (is bool, skipped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := now.Unix(); s != l.second {
		l.second, l.n = s, 0
		skipped, l.skipped = l.skipped, 0
	}
	l.n++
	if l.n > maxMessages {
		l.skipped++
		return false, 0
	}
	return true, skipped
}

func (l *logger) write(level func(string, ...any), format string, args []any) {
	is, skipped := l.admit(time.Now())
	if skipped > 0 {
		l.log.Warn("NATS server", "omitted messages", skipped)
	}
	if is {
		level("NATS server", "message", fmt.Sprintf(format, args...))
	}
}

func (*logger) Noticef(string, ...any)              {}
func (*logger) Debugf(string, ...any)               {}
func (*logger) Tracef(string, ...any)               {}
func (l *logger) Warnf(format string, args ...any)  { l.write(l.log.Warn, format, args) }
func (l *logger) Errorf(format string, args ...any) { l.write(l.log.Error, format, args) }
func (l *logger) Fatalf(format string, args ...any) { l.Errorf(format, args...) }
