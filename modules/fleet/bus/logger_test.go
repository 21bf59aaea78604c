// SPDX-License-Identifier: Apache-2.0

package bus

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAFloodOfErrorsIsLoggedBriefly(t *testing.T) {
	var text bytes.Buffer
	l := &logger{log: slog.New(slog.NewTextHandler(&text, nil))}
	const flood = 10000
	for range flood {
		l.Errorf("publish violation of %s", "mallory")
	}
	if n := strings.Count(text.String(), "publish violation of mallory"); n < maxMessages || n > flood/2 {
		t.Errorf("%d messages are logged", n)
	}
	now := time.Unix(100, 0)
	l = &logger{log: l.log}
	for range maxMessages + 5 {
		l.admit(now)
	}
	if is, skipped := l.admit(now.Add(time.Second)); !is || skipped != 5 {
		t.Errorf("in the next second a message is logged: %v; %d omitted, want 5", is, skipped)
	}
}
