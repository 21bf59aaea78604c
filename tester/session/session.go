// SPDX-License-Identifier: Apache-2.0

// Package session runs the frame tester: it checks the ports, attaches the analyzers, starts the
// generators, and gives one account of what was sent and what arrived.
//
// What will bite you: a delay is one-way only when both ends read one clock; a veth port receives
// nothing from an XDP sender unless its peer has native XDP or GRO on; and frames the machine could
// not send are not lost frames, so compare Account's asked and achieved rates before its loss.
package session

import (
	"context"
	"fmt"
)

// Run makes one run and returns its account. A cancelled ctx ends it early with what was measured
// so far and no error. Whatever happens, nothing stays attached.
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
