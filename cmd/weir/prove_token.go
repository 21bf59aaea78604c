// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"

	"weir/internal/fault"
	"weir/internal/infile"
)

// tokenVariable holds the secret of weir prove if no option gives one.
const tokenVariable = "WEIR_TOKEN"

var tokenFile = infile.Kind{What: "token", Most: 4096, Name: "write the secret that both ends know into a file, as with: openssl rand -hex 16 > FILE",
	Larger: "a token is one line"}

// secret returns the shared token from an option, a file or the environment; "" without one. Every
// user of the host can read the command line.
func (o proveOptions) secret() (string, error) {
	if o.tokenFile == "" {
		token := o.token
		if token == "" && (o.peer != "" || o.listen != "") {
			token = os.Getenv(tokenVariable)
		}
		return token, os.Unsetenv(tokenVariable) // processes that are started do not need it
	}
	content, err := tokenFile.Read(o.tokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsAny(token, "\n\r") {
		return "", fault.New(fault.Usage, tokenFile.Name, "read token: %s does not hold one line", o.tokenFile)
	}
	return token, nil
}
