// Package forecast forecasts a load by its seasons, and decides if the forecast is better than a headroom.
//
// [Rule.Judge] plays the last seven days as fleets of machines, with and without a forecast, and chooses a season or none.
// [Rule.Forecast] returns the capacity for the time until a machine that is requested now serves. Both depend on their
// arguments alone: a window of a metric of up to 28 days, and a time. A judgement is valid until the next [Boundary].
//
// With the mean y of a slot of five minutes, slots by the local clock, and a season whose profile P has the slots s:
//
//	L(t)  = mean of the known y of the last 7 days (of 1 day for the season "days"); a quarter of them must be known
//	P[s] += max(a, 1/n[s]) * (min(y/L, 3 P[s] + 0.3) - P[s])    exponential smoothing; n[s] counts, the bound damps spikes
//	S(t)  = L * (P[s-1] + 2 P[s] + P[s+1]) / 4                  the season's shape at the present level
//	r     = mean over 20 minutes of (y+e)/(S+e), e = L/50, in [0.05, 8]
//	f(k)  = S(t+k) * (1 + 0.97^k (r-1)), k = 1..n+1             n = launch horizon in slots; the deviation fades
//	Q(k)  = quantile of past (y+e)/(f(k)+e) at this hour of the day, two hours around it; 0.88 of the weight each day
//	F     = max over k of (f(k)+e) Q(k) - e, at most 1.1 times the highest y of 7 days
//	ask   = max(headroom R, F), R = highest y of ten minutes
//
// The quantile is c/(1+c): the newsvendor's critical ratio for waiting that costs c times as much as unused capacity (Arrow,
// Harris and Marschak 1951). Multiplicative seasons with a level are those of Winters (1960), without a trend: the level and r
// follow one. The maximum over k is needed because a pool returns machines at once: it would return what it has just requested.
//
// A slot of the profile without values has the mean of its neighbours, so a metric needs a point in each third slot.
//
// A stuck metric, an hour of equal values at a time of the day that has others, counts as missing in y. R keeps its values.
//
// The package is pure. All functions may be called concurrently.
package forecast
