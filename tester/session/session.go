// SPDX-License-Identifier: Apache-2.0

// Package session runs the frame tester: it checks the ports, attaches the analyzers, starts the
// generators, and returns one account of sent and received frames.
//
// Pitfalls: a delay is one-way only if both ends read one clock. A veth port receives nothing from
// an XDP sender unless its peer has native XDP or GRO. Frames that the machine could not send are
// not lost frames, so compare Account's asked and achieved rates before its loss.
package session

import (
	"context"
	"fmt"
)

// Run makes one run and returns its account. A cancelled ctx ends it early with the results so far
// and no error. Nothing stays attached in any case.
func Run(ctx context.Context, config Config) (Account, error) {
	s, err := Open(ctx, config)
	if err != nil {
		return Account{}, err
	}
	account, err := s.Run(ctx)
	if closeErr := s.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close session: %w", closeErr)
	}
	return account, err
}
