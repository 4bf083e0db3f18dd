/** The key with which every store and every program of the tests seals. */
export const testEncryptionKey = `test:${Buffer.alloc(32, 42).toString('base64')}`
