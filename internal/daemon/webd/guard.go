package webd

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"

	"github.com/weirkeeper/weirkeeper/internal/platform/httpguard"
	"github.com/weirkeeper/weirkeeper/internal/ui/apiserver"
)

// tokenParam is the parameter of a link that has the secret of a token.
const tokenParam = "token"

// guard protects the pages. The API has a guard of its own.
type guard struct {
	own    net.Addr
	tokens func() ([]apiserver.Token, error) // nil: there are none
	log    *slog.Logger
}

// wrap refuses requests of pages of other sites, and those without a token if there are tokens or other hosts reach the
// server. The parameter of a link becomes a cookie, so that the address of a page does not show the secret.
func (g guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpguard.OfThisHost(g.own, r) {
			http.Error(w, "the Host header is a name of another host: use the IP address, or localhost", http.StatusForbidden)
			return
		}
		if g.tokens == nil && httpguard.Loopback(g.own) {
			next.ServeHTTP(w, r)
			return
		}
		tokens, err := g.read()
		switch linked := apiserver.Find(tokens, r.URL.Query().Get(tokenParam)); {
		case err != nil:
			g.log.Warn("tokens of the dashboard unreadable", "err", err)
			http.Error(w, "the tokens of this server cannot be read: see its log", http.StatusServiceUnavailable)
		case linked.Role != "":
			http.SetCookie(w, &http.Cookie{
				Name: g.cookie(), Value: pass(linked), Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
			})
			http.Redirect(w, r, withoutToken(r), http.StatusSeeOther)
		case !g.permits(tokens, r):
			w.Header().Set("WWW-Authenticate", `Basic realm="Weirkeeper: any name, and a secret of the token file as password"`)
			http.Error(w, "give any name, and a secret of the token file as password, or open the link that \"weir up\" prints", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (g guard) read() ([]apiserver.Token, error) {
	if g.tokens == nil {
		return nil, nil
	}
	return g.tokens()
}

// permits reports whether a request has the secret of a token, or the cookie of one.
func (g guard) permits(tokens []apiserver.Token, r *http.Request) bool {
	secret := httpguard.Bearer(r)
	if _, password, ok := r.BasicAuth(); ok {
		secret = password
	}
	if apiserver.Find(tokens, secret).Role != "" {
		return true
	}
	cookie, err := r.Cookie(g.cookie())
	return err == nil && slices.ContainsFunc(tokens, func(t apiserver.Token) bool { return httpguard.Equal(cookie.Value, pass(t)) })
}

// cookie returns the name of the cookie. A browser sends a cookie to all ports of a host, so the name has the port.
func (g guard) cookie() string {
	_, port, _ := net.SplitHostPort(g.own.String())
	return fmt.Sprintf("weir_pages_%s", port)
}

// pass returns the value of a token's cookie. It opens the pages only: a server on another port of the host, which may
// receive the cookie, cannot give orders with it.
func pass(t apiserver.Token) string {
	sum := hmac.New(sha256.New, []byte(t.Secret))
	sum.Write([]byte("pages of weir web"))
	return hex.EncodeToString(sum.Sum(nil))
}

// withoutToken returns the path and query of a request without its token.
func withoutToken(r *http.Request) string {
	query := r.URL.Query()
	query.Del(tokenParam)
	to := url.URL{Path: path.Clean("/" + r.URL.Path), RawQuery: query.Encode()} // a path with two slashes would name a host
	return to.String()
}
