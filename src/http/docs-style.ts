/** The look of the reference: two columns where there is room, one where there is not; light or dark as the reader has it. */
export const style = `
:root{--ink:#1b2430;--soft:#5a6776;--line:#dde3ea;--ground:#fff;--raised:#f5f7fa;--link:#0b62c4;--get:#0a7a4b;--post:#0b62c4;--put:#8a5a00;--patch:#7a3fb5;--delete:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e3e8ee;--soft:#9aa7b5;--line:#2b3440;--ground:#12171e;--raised:#1a212a;--link:#6cb0ff;--get:#5fd39b;--post:#6cb0ff;--put:#e7b04a;--patch:#c79bf2;--delete:#ff8a80}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--ground);display:grid;grid-template-columns:19rem minmax(0,1fr);grid-template-areas:"nav header" "nav main"}
header{grid-area:header;padding:2rem 2.5rem 0;max-width:62rem}
main{grid-area:main;padding:0 2.5rem 4rem;max-width:62rem}
nav{grid-area:nav;position:sticky;top:0;height:100vh;overflow:auto;padding:1.5rem 1rem;border-right:1px solid var(--line);background:var(--raised);font-size:.875rem}
nav summary{font-weight:600}
@media(min-width:60.01rem){@supports selector(::details-content){nav summary{display:none}nav details::details-content{content-visibility:visible;block-size:auto}}}
nav h2{font-size:.8rem;margin:1.1rem 0 .3rem;border:0;padding:0}
nav h2 a{color:var(--soft)}
nav ul{list-style:none;margin:0;padding:0}
nav li a{display:flex;gap:.5rem;padding:.2rem 0;color:var(--ink);align-items:baseline}
nav b{flex:0 0 3.2rem;font-size:.65rem}
a{color:var(--link);text-decoration:none}
a:hover{text-decoration:underline}
:focus-visible{outline:2px solid var(--link);outline-offset:2px}
h1{font-size:1.8rem;line-height:1.2;margin:0 0 .5rem}
h1 small,h4 small{font-weight:400;color:var(--soft);font-size:.85rem}
h2{font-size:1.35rem;margin:3rem 0 1rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
h3{font-size:1.05rem;margin:0 0 .3rem}
h3 a{color:inherit}
h4{font-size:.85rem;margin:1rem 0 .3rem;color:var(--soft)}
section{padding:1.2rem 0;border-bottom:1px solid var(--line)}
section:target{background:linear-gradient(90deg,var(--raised),transparent)}
code{font:.85em/1.4 ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
.path{background:var(--raised);border:1px solid var(--line);border-radius:6px;padding:.5rem .75rem;margin:.4rem 0 .6rem;display:flex;gap:.6rem;align-items:baseline;flex-wrap:wrap}
b{font:700 .75rem/1 ui-monospace,SFMono-Regular,Menlo,monospace}
.get{color:var(--get)}.post{color:var(--post)}.put{color:var(--put)}.patch{color:var(--patch)}.delete{color:var(--delete)}
.scope,.bounds{color:var(--soft);font-size:.85rem}
.scope{margin-left:auto}
.required{color:var(--delete)}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .75rem .35rem 0;border-top:1px solid var(--line);font-weight:400;overflow-wrap:anywhere}
th{width:24%}td:nth-child(2){width:24%;color:var(--soft)}
table table{margin:.3rem 0}
details summary{cursor:pointer;color:var(--link)}
dl{display:grid;grid-template-columns:3.5rem minmax(0,1fr);margin:0;font-size:.9rem;row-gap:.3rem}
dt{font:700 .85rem/1.7 ui-monospace,SFMono-Regular,Menlo,monospace}
dd{margin:0}
@media(max-width:60rem){
body{display:block}
header,main{padding-left:1.1rem;padding-right:1.1rem}
nav{position:static;height:auto;border:0;margin:1.2rem 1.1rem 0;border-radius:8px;padding:.8rem 1rem}
}
@media(max-width:40rem){
table,tbody,tr,th,td{display:block;width:auto!important}
tr{border-top:1px solid var(--line);padding:.4rem 0}
th,td{border:0;padding:0}
}
@media print{nav{display:none}body{display:block}}
`
