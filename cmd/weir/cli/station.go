// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/rand"

	"weir/core/prove/station"
)

// ServeStation runs the far end of a measurement until ctx ends. Without a token it makes one and
// prints it. role names the far end, and other the command at the near end, up to the address.
func (a *App) ServeStation(ctx context.Context, listen, token, role, other string) error {
	made := ""
	if token == "" {
		token = rand.Text()
		made = ", which holds " + token
	}
	server, err := station.Listen(listen, token)
	if err != nil {
		return err
	}
	a.Say("%s at %s, TCP and UDP; at the other end: %s %s --token-file FILE%s", role, server.Addr(), other, server.Addr(), made)
	return server.Serve(ctx)
}
