// SPDX-License-Identifier: Apache-2.0

package wait

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestForEndsWithTheTimeOrTheContext(t *testing.T) {
	t.Parallel()
	if err := For(t.Context(), 0); err != nil {
		t.Errorf("after its time: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := For(ended, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}
