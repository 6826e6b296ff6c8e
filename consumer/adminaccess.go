package consumer

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/adminapi"
)

// AdminToken lets whoever presents it use [Consumer.Admin].
type AdminToken struct {
	// Name of whom it was given to: "who" in every history. 1 to 64 letters,
	// digits, '.', '-', '_' and '@'; not "local".
	Name string
	// Token is random, 16 to 512 characters without spaces: 32 from "openssl rand
	// -hex 16" do.
	Token string
	// Role says what it allows.
	Role AdminRole
}

// String leaves the token out.
func (t AdminToken) String() string { return t.Name + " (" + t.Role.String() + ")" }

// GoString leaves the token out.
func (t AdminToken) GoString() string { return "consumer.AdminToken{" + t.String() + "}" }

const (
	minToken     = 16 // bytes: guessing one is hopeless, where it is random
	maxToken     = 512
	maxTokenName = 64
	maxTokens    = 1_000
)

// knownToken is a token as it is kept: nobody finds it in a dump.
type knownToken struct {
	name string
	role AdminRole
	sum  [sha256.Size]byte
}

// check notes the faults of the tokens.
func (c *AdminConfig) check(f *faults) []knownToken {
	if len(c.Tokens) > maxTokens {
		f.add("AdminConfig.Tokens", fmt.Sprintf("has %d entries", len(c.Tokens)), fmt.Sprintf("at most %d", maxTokens))
		return nil
	}
	known := make([]knownToken, 0, len(c.Tokens))
	for i, t := range c.Tokens {
		at := fmt.Sprintf("AdminConfig.Tokens[%d].", i)
		if !validTokenName(t.Name) {
			f.add(at+"Name", "is "+quoteBounded(t.Name), fmt.Sprintf("1 to %d letters, digits, '.', '-', '_' and '@', and not \"local\"", maxTokenName))
		}
		if len(t.Token) < minToken || len(t.Token) > maxToken || strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			f.add(at+"Token", fmt.Sprintf("has %d bytes, or a character that no header holds", len(t.Token)), fmt.Sprintf("%d to %d random letters and digits", minToken, maxToken))
		}
		if t.Role < AdminView || t.Role > AdminApprove {
			f.add(at+"Role", fmt.Sprintf("is %d", t.Role), "consumer.AdminView, AdminReplay or AdminApprove")
		}
		k := knownToken{name: t.Name, role: t.Role, sum: sha256.Sum256([]byte(t.Token))}
		for first, other := range known {
			if other.name == k.name {
				f.add(at+"Name", fmt.Sprintf("is %s, as that of Tokens[%d]", quoteBounded(t.Name), first), "a name of its own")
			}
			if other.sum == k.sum {
				f.add(at+"Token", fmt.Sprintf("is that of Tokens[%d] too", first), "a token of its own: who used it could not be told")
			}
		}
		known = append(known, k)
	}
	return known
}

func validTokenName(name string) bool {
	return name != "" && name != local && len(name) <= maxTokenName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_@", r)
	})
}

// local is who comes from the same machine.
const local = "local"

// caller is who asks.
type caller struct {
	who  string
	role AdminRole
}

// admit says who asks, or why nobody is served.
func (a *admin) admit(r *http.Request) (caller, *refusal) {
	if why := fromOtherPage(r); why != "" {
		return caller{}, refuse(http.StatusForbidden, adminapi.CodeForbidden, why)
	}
	if len(a.tokens) > 0 {
		return a.byToken(r)
	}
	if why := fromElsewhere(r); why != "" {
		return caller{}, refuse(http.StatusForbidden, adminapi.CodeForbidden,
			why+"; without tokens only this machine is served: forward a port to it, or configure tokens")
	}
	who := local
	if name := printable(r.Header.Get(adminapi.WhoHeader), adminapi.MaxWho); name != "" {
		who += ":" + name
	}
	return caller{who, AdminApprove}, nil
}

// byToken looks at every token in the same time, whichever it is.
func (a *admin) byToken(r *http.Request) (caller, *refusal) {
	presented := r.Header.Values("Authorization")
	var token string
	if len(presented) == 1 {
		if scheme, rest, ok := strings.Cut(presented[0], " "); ok && strings.EqualFold(scheme, "Bearer") && len(rest) <= maxToken {
			token = rest
		}
	}
	if token == "" {
		return caller{}, refuse(http.StatusUnauthorized, adminapi.CodeToken, "a token is needed: Authorization: Bearer TOKEN")
	}
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range a.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], a.tokens[i].sum[:]), i, found)
	}
	if found < 0 {
		return caller{}, refuse(http.StatusUnauthorized, adminapi.CodeToken, "this token is not known here")
	}
	return caller{a.tokens[found].name, a.tokens[found].role}, nil
}

// fromOtherPage says why a request is a browser's, made by a page of another
// origin. There is no page of ours, so nobody is missed.
func fromOtherPage(r *http.Request) string {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		return "a page of another site asks"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		_, host, ok := strings.Cut(origin, "://")
		if !ok || !strings.EqualFold(host, r.Host) {
			return "a page of another origin asks"
		}
	}
	return ""
}

// fromElsewhere says why a request is not one from this machine. The address
// alone does not tell: a proxy or a sidecar on it passes on those of others, and
// a browser on it asks for whatever name its page has had resolved to loopback.
func fromElsewhere(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return "the request comes from another machine"
	}
	if !loopbackHost(r.Host) {
		return "the request is for a host that is not this machine's loopback address"
	}
	for name := range r.Header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "X-Envoy-"):
			return "the request has come through a proxy"
		}
	}
	return ""
}

func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// printable is what of a text can be shown on one line, at most most bytes.
func printable(text string, most int) string {
	var b strings.Builder
	for _, r := range text[:min(len(text), 4*most)] {
		if !strconv.IsPrint(r) || r == '\ufffd' {
			continue
		}
		if b.Len()+len(string(r)) > most {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// turnedAway bounds the lines about requests that were not admitted.
type turnedAway struct {
	mu     sync.Mutex
	until  time.Time
	unsaid int
}

// turnAway logs who was not admitted, at most once in a second: a guesser must
// not fill the log.
func (a *admin) turnAway(r *http.Request, why *refusal) {
	t := &a.turned
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) {
		t.unsaid++
		return
	}
	attrs := []any{"from", r.RemoteAddr, "why", string(why.fault.Message)}
	if t.unsaid > 0 {
		attrs = append(attrs, "lines_left_out_before", t.unsaid)
	}
	a.log.Warn("admin request turned away", attrs...)
	t.until, t.unsaid = now.Add(time.Second), 0
}
