// SPDX-License-Identifier: Apache-2.0

package ndt7

import (
	"context"
	"encoding/json"

	"weir/measure/record"
	"weir/measure/session"
)

// Measure runs the test on the side of the client and closes the connection. It ends after at most
// MaxDuration.
func Measure(ctx context.Context, t session.ClientTest) session.ClientResult {
	if t.Duration == 0 {
		t.Duration = Duration
	}
	t.FirstMessage, t.Pace = firstMessage, pace
	t.Encode = func(m record.Measurement, _ session.Moment) ([]byte, error) { return json.Marshal(m) }
	t.Decode = func(text []byte) (m record.Measurement, err error) {
		err = json.Unmarshal(text, &m)
		return m, err
	}
	return session.Measure(ctx, t)
}
