package service

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/onceward/onceward/consumer"
)

// TokensVariable names the environment variable with tokens for the operator's
// interface, for those who keep no file: "name:role:token,…".
const TokensVariable = "ONCEWARD_ADMIN_TOKENS"

// tokens are those of the file and of the environment.
func (c *Consuming) tokens(getenv func(string) string) ([]consumer.AdminToken, error) {
	tokens, err := parseTokens(strings.Split(getenv(TokensVariable), ","))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", TokensVariable, err)
	}
	if c.AdminTokens == "" {
		return tokens, nil
	}
	text, err := os.ReadFile(c.AdminTokens)
	if err != nil {
		return nil, fmt.Errorf("--admin-tokens: %w", err)
	}
	more, err := parseTokens(strings.Split(string(text), "\n"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--admin-tokens %s: %w", c.AdminTokens, err)
	case len(more) == 0:
		// Somebody meant to ask for tokens; nobody would be asked for one.
		return nil, fmt.Errorf("--admin-tokens %s: there is no token in it", c.AdminTokens)
	}
	return append(tokens, more...), nil
}

// parseTokens reads name:role:token. What is empty or begins with # is none. An
// error does not quote what may be a token.
func parseTokens(lines []string) (tokens []consumer.AdminToken, err error) {
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		part := strings.SplitN(line, ":", 3)
		if len(part) != 3 {
			return nil, fmt.Errorf("token %d is not NAME:ROLE:TOKEN", i+1)
		}
		role, err := consumer.ParseAdminRole(part[1])
		if err != nil {
			return nil, fmt.Errorf("token %d has an unknown role: want view, replay or approve", i+1)
		}
		tokens = append(tokens, consumer.AdminToken{Name: part[0], Token: part[2], Role: role})
	}
	return tokens, nil
}

// administer makes the operator's interface of the consumer.
func (c *Consuming) administer(of *consumer.Consumer, getenv func(string) string) (http.Handler, error) {
	tokens, err := c.tokens(getenv)
	if err != nil {
		return nil, &UsageError{err}
	}
	handler, err := of.Admin(consumer.AdminConfig{Tokens: tokens})
	if _, faulty := errors.AsType[*consumer.ConfigError](err); faulty {
		return nil, &UsageError{err}
	}
	return handler, err
}
