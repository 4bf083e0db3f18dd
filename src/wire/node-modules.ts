/**
 * The modules of Node for HTTP and TLS. An `import` of them reads every export: it loads Node's own client of `fetch` and
 * decodes all root certificates, 60 ms of each start. Asked for as here, they load these only when they are used.
 */
export const { createServer, STATUS_CODES } = process.getBuiltinModule('node:http')
export const { connect: connectTls, createSecureContext, getCACertificates } = process.getBuiltinModule('node:tls')
