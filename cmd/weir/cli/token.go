// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"

	"weir/internal/fault"
	"weir/internal/infile"
)

// TokenVariable is the environment variable of the secret if no option gives one.
const TokenVariable = "WEIR_TOKEN"

var tokenFile = infile.Kind{What: "token", Most: 4096, Name: "write the secret that both ends know into a file, as with: openssl rand -hex 16 > FILE",
	Larger: "a token is one line"}

// ReadToken returns the shared token from an option, a file or the environment; "" without one.
// Every user of the host can read the command line.
func ReadToken(token, file string) (string, error) {
	if file == "" {
		if token == "" {
			token = os.Getenv(TokenVariable)
		}
		return token, os.Unsetenv(TokenVariable) // child processes do not need it
	}
	content, err := tokenFile.Read(file)
	if err != nil {
		return "", err
	}
	token = strings.TrimSpace(string(content))
	if token == "" || strings.ContainsAny(token, "\n\r") {
		return "", fault.New(fault.Usage, tokenFile.Name, "read token: %s does not hold one line", file)
	}
	return token, nil
}
